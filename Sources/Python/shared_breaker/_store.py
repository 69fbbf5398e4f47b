"""The store: one file that all processes of the host share."""

from __future__ import annotations

import atexit
import os
import sys
import time
import weakref

from . import _extension
from ._breaker import Breaker
from ._errors import Rejected, visible
from ._events import Event, call_listener, remove_listener
from ._judge import FAILURE, PERMANENT_FAILURE, Judge
from ._permit import outcome_number
from ._policy import elapsed_nanoseconds, nanoseconds, policy_words
from ._signals import is_of_signal
from ._text import called, exact, for_people, name_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from threading import Event as ThreadEvent
    from typing import Any, Literal, Self, Unpack

    from ._history import Entry, Follower
    from ._judge import OpenFor, ResultRules, Rules
    from ._permit import Outcome, Verdict
    from ._policy import PolicyWords, Seconds

    StoreFailure = Literal["continue_locally", "permit", "reject", "raise"]

_CHANGES_OF_STATE = {"transition", "reset", "suspicion"}
_STORE_FAILURES = {"continue_locally": 1, "permit": 2, "reject": 3, "raise": 4}


class SharedStore(_extension.Store):
    """A file with breakers, which is opened when it is first used.

    If you give no path, it is ``$SHARED_BREAKER_STORE``, else ``/var/lib/shared-breaker/breakers.db``
    for root, else ``$XDG_STATE_HOME/shared-breaker/breakers.db`` (``~/.local/state``), which is where
    ``cbctl`` looks, too.
    """

    __slots__ = (
        "_breakers", "_call_listeners", "_is_available", "_listeners", "_logged", "_opened_at")

    if TYPE_CHECKING:
        _breakers: weakref.WeakSet[Breaker]
        _call_listeners: list[Callable[[Event], object]]
        _is_available: bool
        _listeners: list[Callable[[Event], object]]
        _logged: dict[str, int]
        _opened_at: str

    def __new__(
        cls,
        path: str | os.PathLike[str] | None = None,
        *,
        on_store_failure: StoreFailure = "continue_locally",
        lock_timeout: Seconds = 0.5,
        mode: int | None = None,
        group: str | None = None,
        program: str | None = None,
        maximum_breakers: int | None = None,
    ) -> Self:
        """Name a store. Nothing is read or created yet.

        ``on_store_failure`` says what calls do while the file cannot be used: go on with a breaker of
        this process alone, be permitted, be rejected, or raise ``StoreError``. ``lock_timeout`` is the
        longest time that a call waits for another process. ``mode`` and ``group`` are the rights of
        the files if this process creates them. ``program`` is its name in the history.
        """
        path_bytes = None if path is None else os.fsencode(path)
        if path_bytes == b"":
            raise ValueError("the path is empty: leave it out for the default store")
        self = super().__new__(
            cls,
            path_bytes,
            _failure_number(on_store_failure),
            nanoseconds(lock_timeout),
            mode or 0,
            None if group is None else exact(group, "the name of a group"),
            for_people(program if program is not None else _program(), "the name of a program"),
            maximum_breakers or 0,
        )
        self._breakers = weakref.WeakSet()
        self._is_available = True
        self._listeners = []
        self._call_listeners = []
        self._logged = {}
        self._opened_at = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime())
        _stores.add(self)
        return self

    def __repr__(self) -> str:
        return f"<SharedStore {self.path!r}>"

    def __reduce__(self) -> str | tuple[Any, ...]:
        raise TypeError("a store cannot be pickled: open it by its path in each process")

    @property
    def path(self) -> str:
        """The path of the file."""
        return self._path()

    @property
    def health(self) -> str:
        """``available`` or ``untried``, or the words for why this process is on its own."""
        code, text = self._health()
        return {0: "available", 7: "untried"}.get(code, text)

    def connect(self, *, existing: bool = False) -> None:
        """Open the file now, to learn whether it can be used; ``existing`` never creates it."""
        self._connect(existing)

    def flush(self) -> None:
        """Write what this process has yet to write, and keep the file open.

        There is seldom anything to write: only where the shared counters cannot be used does a process
        keep its successes, for a second at most while it makes calls. Flush before a process ends
        without ``close``, as by ``os._exit`` or as a forked child of ``multiprocessing``.
        """
        self._flush()

    def close(self) -> None:
        """Write what this process has yet to write, and close the file for good.

        It happens by itself when the program ends. Breakers of a closed store permit every call and
        record none. To go on afterwards, use ``flush``.
        """
        self._close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    # Breakers

    def breaker(
        self,
        name: str,
        policy: str | None = None,
        *,
        open_for: Seconds | OpenFor | None = None,
        ignore: Rules | None = None,
        permanent: Rules | None = None,
        failure: ResultRules | None = None,
        on_store_failure: StoreFailure | None = None,
        **words: Unpack[PolicyWords],
    ) -> Breaker:
        """Get the breaker with a name, and declare its policy if you give one.

        A policy is given as keywords, as words such as ``"max-failures=3 open-for=30s"``, or as both,
        of which keywords win. The policy that was declared last holds in every process.

        The policy is declared at once if the file exists. Otherwise the first call creates the file and
        declares it.

        By default each ``Exception`` is a failure. Cancellations, and everything else that is not an
        ``Exception``, are ignored unless a rule names their type. Rules are exception types, predicates, or iterables of them:

        - ``ignore``: exceptions that say nothing about the resource;
        - ``permanent``: exceptions that open the breaker at once, since trying again cannot help;
        - ``failure``: types of exceptions of which only these are failures, and others are ignored;
          a predicate judges exceptions and also results. One that raises is skipped.
        - ``open_for``: a time, or a function that reads the time from what failed (an exception or a
          result), such as ``retry_after``; None means the time of the policy.
        """
        name_of(name)
        keywords: dict[str, object] = {**words}
        reads_time = callable(open_for)
        if open_for is not None and not reads_time:
            keywords["open_for"] = open_for
        time_of = open_for if reads_time else None
        judge = Judge(ignore, permanent, failure, time_of)  # type: ignore[arg-type]
        failure_number = 0 if on_store_failure is None else _failure_number(on_store_failure)
        breaker = Breaker(self, name, policy_words(policy, keywords), failure_number, judge)
        self._breakers.add(breaker)
        if self._listeners:
            breaker._begin_to_watch()
        return breaker

    def report(
        self,
        token: str,
        outcome: Outcome = "success",
        error: str | None = None,
        *,
        open_for: Seconds | None = None,
        elapsed: Seconds | None = None,
    ) -> Verdict:
        """Report how the call of a token went; see ``Breaker.acquire_token``."""
        return self._report(
            exact(token, "a token"),
            outcome_number(outcome),
            for_people(error, "an error"),
            0 if open_for is None else nanoseconds(open_for),
            elapsed_nanoseconds(elapsed),
        )  # type: ignore[return-value]

    def renew(self, token: str, duration: Seconds | None = None) -> bool:
        """Renew the lease of the probe of a token; False if it has lost its lease."""
        return self._renew(exact(token, "a token"), 0 if duration is None else nanoseconds(duration))

    # Looking

    def snapshot(self, name: str) -> dict[str, Any] | None:
        """Return all that is known of a breaker; None if there is none with that name."""
        text = self._snapshot(name_of(name))
        import json

        snapshot: dict[str, Any] | None = None if text is None else json.loads(text)
        return snapshot

    def snapshots(self, prefix: str | None = None) -> list[dict[str, Any]]:
        """Return all breakers whose names begin with a text, in the order of their names."""
        import json

        snapshots: list[dict[str, Any]] = json.loads(self._list(None if prefix is None else name_of(prefix)))["breakers"]
        return snapshots

    def history(self, name: str | None = None, *, after: int = 0, limit: int = 10_000) -> list[Entry]:
        """Return what happened to a breaker, or to all of them, oldest first.

        ``after`` is the ``id`` of the entry to read on after. Entries are the objects of
        ``cbctl history --json``.
        """
        import json

        if name is not None:
            name_of(name)
        entries: list[Entry] = json.loads(self._history(name, after, limit)[0])
        return entries

    def follow(self, name: str | None = None, *, after: int | None = None) -> Follower:
        """Follow what happens in all processes, as it happens, with ``for`` or ``async for``.

        It begins now, or after the entry with the ``id`` in ``after``. Nothing polls: the kernel wakes
        anyone who waits. It ends when it is closed, or the store is.
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
        entry whose end could not be written because the store was lost.
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
        for breaker in list(self._breakers):
            breaker._begin_to_watch()
        return lambda: self._end_listening(listener, calls)

    def _end_listening(self, listener: Callable[[Event], object], calls: bool) -> None:
        remove_listener(self._listeners, listener)
        if calls:
            remove_listener(self._call_listeners, listener)

    def _tell_call(self, name: str, found: object) -> None:
        """Tell listeners of a call that was rejected, or that has failed."""
        if isinstance(found, Rejected):
            event = Event("rejection", name, None, found.state, str(found), found.retry_after)
        elif isinstance(found, tuple) and found[0] in (FAILURE, PERMANENT_FAILURE):
            text = None if found[1] is None else found[1].decode(errors="replace")
            event = Event("failure", name, None, "counted", text)
        else:
            return
        for listener in list(self._call_listeners):
            call_listener(listener, event)

    # What the extension calls, in the thread of the call that has found it

    def _log_health(self, trouble: str | None) -> None:
        """Write one line when this process has lost the store, and one when it has it back."""
        try:
            import logging

            log = logging.getLogger("shared_breaker")
            if trouble is None:
                log.info("the store %s can be used again", self.path)
            else:
                log.warning("%s", trouble)
        except Exception as error:  # of a filter, say; the call that has found it goes on
            if is_of_signal(error):
                raise

    def _log_changes(
        self, name: str, health: int, before: str | None, after: str | None
    ) -> None:
        """Write a line for each change of a breaker's state that this process has made."""
        try:
            if health == 0:
                changes = self._own_changes(name)
            else:  # no other process knows of it
                changes = [(before or "closed", after, "of this process alone")] if after else []
            for old, new, reason in changes:
                import logging

                level = logging.WARNING if (old, new) == ("closed", "open") else logging.INFO
                logging.getLogger("shared_breaker").log(
                    level, "%s: %s -> %s%s", visible(name), old, new,
                    f": {visible(reason)}" if reason else "")
        except Exception as error:  # the call goes on, whatever has become of the log and the store
            if is_of_signal(error):
                raise

    def _own_changes(self, name: str) -> list[tuple[str | None, str | None, str | None]]:
        """Return the changes of a state that the history has of this process, each of them once."""
        import json

        before = self._logged.setdefault(name, 0)
        text, last = self._history(name, before, 1_000)
        if last < before:  # another file has taken the place of the one that was read
            self._logged[name] = 0
        own = []
        for entry in json.loads(text):
            # Another thread may have come first. None comes between these lines, which call nothing.
            if entry["id"] <= self._logged[name]:
                continue
            self._logged[name] = entry["id"]
            is_own = entry["by"]["pid"] == os.getpid() and entry["at"] >= self._opened_at
            if is_own and entry["kind"] in _CHANGES_OF_STATE and entry["from"] != entry["to"]:
                own.append((entry["from"], entry["to"], entry["reason"]))
        return own

    def _tell_health(self) -> None:
        code, text = self._health()
        is_available = code >= 0
        if is_available == self._is_available:
            return
        self._is_available = is_available
        words = ("unavailable", "available")
        event = Event(
            "store", None, words[not is_available], words[is_available],
            None if is_available else text)
        for listener in list(self._listeners):
            call_listener(listener, event)


def _failure_number(words: str) -> int:
    if not isinstance(words, str) or words not in _STORE_FAILURES:
        raise ValueError(
            f"there is no on_store_failure {words!r}: use one of {', '.join(_STORE_FAILURES)}")
    return _STORE_FAILURES[words]


def _program() -> str:
    """Return the name of the program, which is not that of the interpreter."""
    name = os.path.basename(sys.argv[0]) if getattr(sys, "argv", None) else ""
    return name if name not in ("", "-c", "-m") else "python"


_stores: weakref.WeakSet[SharedStore] = weakref.WeakSet()


@atexit.register
def _close_stores() -> None:
    for store in list(_stores):
        store.close()
