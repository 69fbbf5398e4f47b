"""Following the history, and hooks that run once per host."""

from __future__ import annotations

import contextlib
import json
import logging
import os
import select

from ._errors import StoreError
from ._extension import Hook, News
from ._signals import is_of_signal
from ._text import called, name_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from threading import Event
    from typing import Any, Self

    from ._extension import Entry, Store

# The longest wait for news: the directory of the store may be removed and made again.
_PATIENCE = 2.0
_HANDLED, _FAILED, _RELEASED = range(3)

_log = logging.getLogger("shared_breaker")


class _Alarm:
    """Wakes all waiters, and all later ones. Its descriptor is closed when its last user is gone."""

    def __init__(self) -> None:
        self.descriptor = os.eventfd(0)

    def ring(self) -> None:
        os.eventfd_write(self.descriptor, 1)

    def __del__(self, close: Callable[[int], None] = os.close) -> None:
        close(self.descriptor)


class _Bell:
    """Wakes everything that waits for news of a store. The child of a fork gets its own."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._news = News(store)
        self._alarm: _Alarm | None = _Alarm()
        self._waiters: set[object] = set()
        self._pid = os.getpid()
        self._is_closed = False

    def _own(self) -> None:
        if self._pid != os.getpid() and not self._is_closed:
            news = News(self._store)
            self._news.close()
            self._news, self._alarm, self._waiters = news, _Alarm(), set()
            self._pid = os.getpid()

    @contextlib.contextmanager
    def _waiting(self) -> Iterator[tuple[int, ...]]:
        """Keep the descriptors to wait on open; there are none once the bell is closed."""
        waiter = object()
        waiters = self._waiters
        waiters.add(waiter)
        try:
            alarm = self._alarm
            if self._is_closed or alarm is None:
                yield ()
            else:
                yield self._news.fileno(), alarm.descriptor
        finally:
            waiters.discard(waiter)
            self._free()

    def _free(self) -> None:
        """Close the descriptors of a closed bell once nothing waits on them."""
        # An event loop that still watches a descriptor would mistake the next file with its number for it.
        if self._is_closed and not self._waiters:
            self._news.close()
            self._alarm = None

    def _is_of_use(self) -> bool:
        try:
            self._news.take()
        except StoreError as error:
            if error.code != "closed":
                raise
            return False
        return not self._is_closed

    def wait(self, at_most: float = _PATIENCE) -> bool:
        """Wait for news; return False if there will be none because the bell or the store was closed."""
        self._own()
        with self._waiting() as descriptors:
            if descriptors:
                poll = select.poll()
                for descriptor in descriptors:
                    poll.register(descriptor, select.POLLIN)
                poll.poll(max(0.0, at_most) * 1_000)
        return self._is_of_use()

    async def wait_async(self, at_most: float = _PATIENCE) -> bool:
        """Do what ``wait`` does, without blocking the event loop."""
        import asyncio

        self._own()
        loop = asyncio.get_running_loop()
        rung = asyncio.Event()
        with self._waiting() as descriptors:
            try:
                for descriptor in descriptors:
                    loop.add_reader(descriptor, rung.set)
                if descriptors:
                    # Not wait_for(), which loses a cancellation that arrives together with the news.
                    async with asyncio.timeout(max(0.0, at_most)):
                        await rung.wait()
            except TimeoutError:
                pass
            finally:
                for descriptor in descriptors:
                    loop.remove_reader(descriptor)
        return self._is_of_use()

    def close(self) -> None:
        """End all waiting."""
        self._is_closed = True
        alarm = self._alarm
        if self._pid != os.getpid():
            self._waiters = set()  # those of the parent, which goes on
        elif alarm is not None:
            alarm.ring()
        self._free()


class Follower:
    """An iterator over what happens to breakers, as it happens; it is also asynchronous.

    It ends when it or its store is closed. While the store cannot be read, it waits until it can be.
    """

    def __init__(self, store: Store, name: str | None, after: int | None) -> None:
        """Use ``SharedStore.follow`` instead."""
        self._store = store
        self._name = None if name is None else name_of(name)
        self._last: int | None = after
        self._entries: list[Entry] = []
        # From here on everything that happens wakes this follower, so it misses nothing.
        self._bell = _Bell(store)
        self._is_closed = False
        if after is None:
            self._read()

    def _read(self) -> None:
        try:
            text, last = self._store._history(self._name, self._last, 1_000)
        except StoreError as error:
            if error.code == "closed":
                self.close()
            return
        if self._last is not None:
            self._entries = json.loads(text)
            self._entries.reverse()
        self._last = last

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Entry:
        while not self._is_closed:
            if not self._entries:
                self._read()
            if self._entries:
                return self._entries.pop()
            if not self._is_closed and not self._bell.wait():
                self.close()
        raise StopIteration

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Entry:
        from ._aio import in_thread

        while not self._is_closed:
            if not self._entries:
                await in_thread(self._read)
            if self._entries:
                return self._entries.pop()
            if not self._is_closed and not await self._bell.wait_async():
                self.close()
        raise StopAsyncIteration

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def close(self) -> None:
        """End following, also for a thread or task that waits."""
        self._is_closed = True
        self._bell.close()


class _Turn:
    """The next action of a hook, for ``handle`` and ``handle_async``, whose loops differ only in how they wait."""

    def __init__(
        self, store: Store, hook: str, function: object, name: str | None, timeout: int,
        attempts: int,
    ) -> None:
        called(function, "the function of a hook")
        self._store = store
        self._name = name_of(hook, "the name of a hook")
        self._hook = Hook(store, hook, None if name is None else name_of(name), timeout, attempts)
        self._noted: int | None = None

    def take(self) -> tuple[str | None, float]:
        """Take an entry, or return how many seconds to wait for one."""
        try:
            entry, wait = self._hook.take()
        except StoreError as error:
            # If the store was closed, waiting for its news ends at once.
            return None, 0 if error.code == "closed" else _PATIENCE
        self._noted = None
        # A process that dies while it has an entry wakes no other process.
        return entry, _PATIENCE if wait < 0 else min(wait / 1e9, 1.0)

    @contextlib.contextmanager
    def handling(self) -> Iterator[None]:
        """Note what becomes of an entry; only an exception that ends the hook leaves the block."""
        result = _RELEASED
        try:
            yield
            result = _HANDLED
        except Exception as error:
            if is_of_signal(error):
                raise
            _log.error("the hook %s failed", self._name, exc_info=error)
            result = _FAILED
        finally:
            self._note(result)

    def _note(self, result: int) -> None:
        try:
            self._hook.done(result)
            self._noted = result
        except StoreError:  # the store was closed meanwhile
            self._warn()

    def leave(self) -> None:
        """Write what is noted, or say in the log that an entry will come again."""
        if self._noted is not None:
            try:
                self._store._flush()
            except StoreError as error:
                # Closing a store writes the note, and others are to have an entry that was released.
                if error.code != "closed" and self._noted != _RELEASED:
                    self._warn()

    def _warn(self) -> None:
        _log.warning(
            "the hook %s could not write what became of an entry, which may be handled again",
            self._name)


def handle(
    store: Store,
    name_of_hook: str,
    function: Callable[[Entry], object],
    name: str | None,
    timeout: int,
    attempts: int,
    stop: Event | None,
) -> None:
    """Run a hook; see ``SharedStore.handle``."""
    turn = _Turn(store, name_of_hook, function, name, timeout, attempts)
    bell = _Bell(store)
    try:
        while stop is None or not stop.is_set():
            entry, wait = turn.take()
            if entry is not None:
                with turn.handling():
                    function(json.loads(entry))
            elif not bell.wait(wait):
                return
    finally:
        bell.close()
        turn.leave()


async def handle_async(
    store: Store,
    name_of_hook: str,
    function: Callable[[Entry], Any],
    name: str | None,
    timeout: int,
    attempts: int,
) -> None:
    """Run a hook that is a coroutine function; see ``SharedStore.handle_async``."""
    from ._aio import in_thread

    turn = _Turn(store, name_of_hook, function, name, timeout, attempts)
    bell = _Bell(store)
    try:
        while True:
            # An entry that is taken after a cancellation goes back when the hook is freed.
            entry, wait = await in_thread(turn.take)
            if entry is not None:
                with turn.handling():
                    await function(json.loads(entry))
            elif not await bell.wait_async(wait):
                return
    finally:
        bell.close()
        await in_thread(turn.leave)
