"""The file that all processes share: opening, closing, reading and reporting to it."""

from __future__ import annotations

import os
import sys
import time
import weakref

from . import _extension
from ._end import at_end
from ._errors import Rejected, StoreError, visible
from ._events import Event, call_listener
from ._judge import FAILURE, PERMANENT_FAILURE, named_time, outcome_number
from ._policy import elapsed_nanoseconds, nanoseconds
from ._signals import is_of_signal
from ._text import exact, for_people, name_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from contextvars import ContextVar
    from mmap import mmap
    from typing import Any, Literal, Protocol, Self

    from ._extension import Entry
    from ._judge import Outcome, Verdict
    from ._policy import Seconds

    class Clock(Protocol):
        """A clock that a test moves by hand."""

        _time: mmap

    StoreFailure = Literal["continue_locally", "permit", "reject", "raise"]
    _Variables = dict[str, ContextVar[int]]
else:
    _Variables = dict

_CHANGES_OF_STATE = {"transition", "reset", "suspicion"}
_STORE_FAILURES = {"continue_locally": 1, "permit": 2, "reject": 3, "raise": 4}


class Store(_extension.Store):
    """A store without what follows it, which ``FollowedStore`` adds."""

    __slots__ = (
        "_call_listeners", "_is_available", "_listeners", "_logged", "_opened_at",
        "_options", "_rooms")

    if TYPE_CHECKING:
        _call_listeners: list[Callable[[Event], object]]
        _is_available: bool
        _listeners: list[Callable[[Event], object]]
        _logged: dict[str, int]
        _opened_at: str
        _options: dict[str, Any]
        _rooms: _Rooms

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
        clock: Clock | None = None,
    ) -> Self:
        """Name a store. Nothing is read or created yet.

        ``on_store_failure`` says what calls do while the file cannot be used: go on with a breaker of
        this process alone, be permitted, be rejected, or raise ``StoreError``. ``lock_timeout`` is the
        longest time that a call waits for another process. ``mode`` and ``group`` set the permissions
        and the group of the files that this process creates. ``program`` names this process in the
        history. ``clock`` is for tests; see ``shared_breaker.testing``.
        """
        options = {
            "on_store_failure": on_store_failure, "lock_timeout": lock_timeout, "mode": mode,
            "group": group, "program": program, "maximum_breakers": maximum_breakers}
        path_bytes = None if path is None else os.fsencode(path)
        if path_bytes == b"":
            raise ValueError("the path is empty: leave it out for the default store")
        self = super().__new__(
            cls,
            path_bytes,
            failure_number(on_store_failure),
            nanoseconds(lock_timeout),
            mode or 0,
            None if group is None else exact(group, "the name of a group"),
            for_people(program if program is not None else _program(), "the name of a program"),
            maximum_breakers or 0,
            None if clock is None else clock._time,
        )
        self._is_available = True
        self._listeners = []
        self._call_listeners = []
        self._logged = {}
        self._opened_at = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime())
        self._options = options
        self._rooms = _rooms_of(self._path())
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
        """``available`` or ``untried``, or a sentence that says why this process is on its own."""
        code, text = self._health()
        return {0: "available", 7: "untried"}.get(code, text)

    def connect(self, *, existing: bool = False) -> None:
        """Open the file now, to learn whether it can be used.

        With ``existing`` it is never created, and from then on no other use of this object creates it either.
        """
        self._connect(existing)

    def flush(self) -> None:
        """Write what this process has yet to write, and keep the file open.

        Usually there is nothing to write: a process keeps its successes only where it cannot use the
        shared counters, for a second at most while it makes calls. Flush before a process ends without
        ``close``, as by ``os._exit``.
        """
        self._flush()

    def close(self) -> None:
        """Write what this process has yet to write, and close the file for good.

        The package does so by itself when the program ends. Breakers of a closed store permit every call and
        record none. To go on using the store, call ``flush`` instead.
        """
        self._close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    # Tokens

    def report(
        self,
        token: str,
        outcome: Outcome | None = None,
        error: str | None = None,
        *,
        open_for: Seconds | None = None,
        hold_for: Seconds | None = None,
        elapsed: Seconds | None = None,
    ) -> Verdict:
        """Report how the call of a token went; see ``Breaker.acquire_token`` and ``Permit.report``."""
        number = outcome_number(outcome, error)
        return self._report(
            exact(token, "a token"),
            number,
            for_people(error, "an error"),
            named_time(number, open_for, hold_for) or 0,
            elapsed_nanoseconds(elapsed),
        )  # type: ignore[return-value]

    def renew(self, token: str, duration: Seconds | None = None) -> bool:
        """Renew the lease of the probe of a token; False if it has lost its lease."""
        return self._renew(exact(token, "a token"), 0 if duration is None else nanoseconds(duration))

    # Looking

    def snapshot(self, name: str) -> dict[str, Any] | None:
        """Return everything about a breaker; None if there is none with that name."""
        text = self._snapshot(name_of(name))
        import json

        snapshot: dict[str, Any] | None = None if text is None else json.loads(text)
        return snapshot

    def snapshots(self, prefix: str | None = None) -> list[dict[str, Any]]:
        """Return all breakers whose names begin with a text, in the order of their names."""
        import json

        listed = self._list(None if prefix is None else name_of(prefix))
        snapshots: list[dict[str, Any]] = json.loads(listed)["breakers"]
        return snapshots

    def history(self, name: str | None = None, *, after: int = 0, limit: int = 10_000) -> list[Entry]:
        """Return what happened to a breaker, or to all of them, oldest first.

        ``after`` is the ``id`` of the last entry that you have read. Entries are the objects that
        ``cbctl history --json`` prints.
        """
        import json

        if name is not None:
            name_of(name)
        entries: list[Entry] = json.loads(self._history(name, after, limit)[0])
        return entries

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

    def _counts_lost_calls(self, name: str) -> bool:
        """Return whether a call of a breaker is a failure if its process is ended."""
        try:
            snapshot = self.snapshot(name)
        except StoreError:  # no other process will learn of it
            return False
        return snapshot is not None and snapshot["policy"]["lost-calls"] == "failure"

    def _lead_to(self, other: Store) -> None:
        """Exchange files with a store of a test, and let the breakers got from this one follow."""
        self._exchange(other)
        for what in ("_is_available", "_logged", "_opened_at"):
            mine = getattr(self, what)
            setattr(self, what, getattr(other, what))
            setattr(other, what, mine)
        for breaker in self._breakers():
            breaker._follow_store()

    # Calls inside of calls

    def _environment_of(self, *rooms: int) -> dict[str, str]:
        """Return what names some calls, and those that surround the running code, to other processes."""
        around = [variable.get() for variable in list(self._rooms.values())]
        entry = self._environment([*(room for room in around if room), *(room for room in rooms if room)])
        return {} if entry is None else dict([entry.split("=", 1)])

    # Called by the extension, in the thread of the call that has found it

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
                lines = [
                    ((old, new) == ("closed", "open"), f"{old} -> {new}{f': {visible(why)}' if why else ''}")
                    for old, new, why in self._own_changes(name)]
            elif after and after != before:
                # No other process knows of it, and what it was before may be long ago.
                lines = [(after == "open" and before != "half_open", f"{after}, in this process alone")]
            else:
                return
            for is_warning, words in lines:
                import logging

                logging.getLogger("shared_breaker").log(
                    logging.WARNING if is_warning else logging.INFO, "%s: %s", visible(name), words)
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


def failure_number(words: str) -> int:
    if not isinstance(words, str) or words not in _STORE_FAILURES:
        raise ValueError(
            f"there is no on_store_failure {words!r}: use one of {', '.join(_STORE_FAILURES)}")
    return _STORE_FAILURES[words]


def _program() -> str:
    """Return the name of the program, which is not that of the interpreter."""
    name = os.path.basename(sys.argv[0]) if getattr(sys, "argv", None) else ""
    return name if name not in ("", "-", "-c", "-m") else "python"


class _Rooms(_Variables):
    """The context variables with the room of the outermost call, by the name of its breaker."""

    __slots__ = ("__weakref__",)


def _rooms_of(path: str) -> _Rooms:
    """Return the rooms of a file, which all stores of this process share that are open on it."""
    return _rooms.setdefault(os.path.realpath(path), _Rooms())


_rooms: weakref.WeakValueDictionary[str, _Rooms] = weakref.WeakValueDictionary()
_stores: weakref.WeakSet[Store] = weakref.WeakSet()


def _close_stores() -> None:
    for store in list(_stores):
        store.close()


at_end(_close_stores)
