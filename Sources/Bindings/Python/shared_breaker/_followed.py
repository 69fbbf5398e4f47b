"""Following what happens in a store, hooks, and listeners."""

from __future__ import annotations

from ._events import remove_listener
from ._policy import nanoseconds
from ._store import Store
from ._text import called

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from threading import Event as ThreadEvent
    from typing import Any

    from ._events import Event
    from ._extension import Entry
    from ._history import Follower
    from ._policy import Seconds


class FollowedStore(Store):
    """A store without what hands out its breakers, which ``SharedStore`` adds."""

    __slots__ = ()

    # Following

    def follow(self, name: str | None = None, *, after: int | None = None) -> Follower:
        """Follow what happens in all processes, as it happens, with ``for`` or ``async for``.

        It begins now, or after the entry whose ``id`` is ``after``. Nothing polls: the kernel wakes whatever
        waits. It ends when it or the store is closed.
        """
        from ._history import Follower

        return Follower(self, name, after)

    def handle(
        self,
        hook: str,
        function: Callable[[Entry], object],
        name: str | None = None,
        *,
        timeout: Seconds = 60,
        attempts: int = 5,
        stop: ThreadEvent | None = None,
    ) -> None:
        """Call a function once for each entry of the history, in one of the processes that ask.

        It returns when ``stop`` is set or the store is closed, within two seconds. If the function
        raises, or the process dies, the entry is handed out again, up to ``attempts`` times. So is an
        entry whose result could not be written because the store was lost.
        """
        from ._history import handle

        handle(self, hook, function, name, nanoseconds(timeout), attempts, stop)

    async def handle_async(
        self,
        hook: str,
        function: Callable[[Entry], Any],
        name: str | None = None,
        *,
        timeout: Seconds = 60,
        attempts: int = 5,
    ) -> None:
        """Do what ``handle`` does with a coroutine function, until its task is cancelled.

        It also returns when the store is closed.
        """
        from ._history import handle_async

        await handle_async(self, hook, function, name, nanoseconds(timeout), attempts)

    # Listening

    def listen(
        self, listener: Callable[[Event], object], *, calls: bool = False
    ) -> Callable[[], None]:
        """Do what ``Breaker.listen`` does for all breakers got from this object, and for the store.

        The listener is also told when this process loses the store, and when it has it back. With
        ``calls``, it is told of each call of this process that is rejected, and of each failure that
        counts, except those that are reported with a token. Do little there: there may be many.
        """
        called(listener, "a listener")
        self._listeners.append(listener)
        if calls:
            self._call_listeners.append(listener)
        for breaker in self._breakers():
            breaker._begin_to_watch()
        return lambda: self._end_listening(listener, calls)

    def _end_listening(self, listener: Callable[[Event], object], calls: bool) -> None:
        remove_listener(self._listeners, listener)
        if calls:
            remove_listener(self._call_listeners, listener)
