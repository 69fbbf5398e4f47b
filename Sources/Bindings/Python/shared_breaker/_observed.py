"""Looking at a breaker, and changing it, besides calls."""

from __future__ import annotations

import os
from operator import index

from . import _extension
from ._errors import StoreError
from ._events import Changes, Event, call_listener, remove_listener
from ._judge import Judge
from ._policy import nanoseconds
from ._text import called, for_people

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, Literal, Self

    from ._followed import FollowedStore
    from ._judge import Ending
    from ._policy import Seconds

    State = Literal["closed", "open", "half_open"]
    Mode = Literal["automatic", "forced_open", "forced_closed", "observe"]

MODES = {"automatic": 0, "forced_open": 1, "forced_closed": 2, "observe": 3}


class ObservedBreaker(_extension.Breaker):
    """A breaker without what makes calls, which ``Breaker`` adds."""

    __slots__ = ("_before", "_changes", "_claims", "_declared", "_judge_result", "_judges_failures", "_listeners",
                 "_origin", "_patience")

    if TYPE_CHECKING:
        store: FollowedStore
        _listeners: list[Callable[[Event], object]]
        _changes: Changes | None
        _claims: tuple[int, bool, bool] | None
        _declared: tuple[str | None, int]
        _before: ObservedBreaker
        _origin: ObservedBreaker | None
        # How long callers may wait for room, in nanoseconds, and until when that counts.
        _patience: tuple[int, float]
        _judge_result: Callable[[object], Ending | None] | None
        _judges_failures: bool

    def __new__(
        cls,
        store: FollowedStore,
        name: str,
        policy: str | None,
        on_store_failure: int,
        judge: Judge,
        /,
    ) -> Self:
        """Use ``breaker()`` or ``SharedStore.breaker()`` instead."""
        judge_result = judge.result if judge.judges_results else None
        self = super().__new__(cls, store, name, policy, on_store_failure, judge.error, judge_result)
        self._listeners = []
        self._changes = None
        self._judge_result = judge_result
        self._judges_failures = judge.judges_failures
        self._declared = policy, on_store_failure
        self._claims = self._origin = None
        self._patience = 0, 0.0
        return self

    def __repr__(self) -> str:
        units, background, retry = self._claims or (1, False, False)
        words = f", {units} units" if units > 1 else ""
        words += ", in the background" if background else ""
        return f"<Breaker {self.name!r}{words}{', for retries' if retry else ''}>"

    def __reduce__(self) -> str | tuple[Any, ...]:
        raise TypeError("a breaker cannot be pickled: get it by its name in each process")

    def __copy__(self) -> Self:
        return self

    def __deepcopy__(self, memo: object) -> Self:
        return self

    def claiming(
        self, units: int | None = None, background: bool | None = None, retry: bool | None = None
    ) -> Self:
        """Return the same breaker for calls that take several units of ``max_concurrent``, can wait, or are retries.

        Use it as you use the breaker itself::

            with gpu.claiming(units=2, background=True):
                train()

        A heavy call begins when there is room for all of its units, and no later caller overtakes it. One that
        asks for more than the limit takes all of it. Background calls leave the units of ``reserve`` to all
        others, and wait behind them. Without a limit these calls are like all others. With ``retry``, calls are sent
        again, and ``retry_budget`` may reject them. Arguments that you leave out are as with this breaker.
        """
        own_units, own_background, own_retry = self._claims or (1, False, False)
        if units is None:
            units = own_units
        if background is None:
            background = own_background
        if retry is None:
            retry = own_retry
        if isinstance(units, bool) or not hasattr(units, "__index__"):
            raise TypeError(f"units has to be a whole number, and not {units!r}")
        units = index(units)
        if units < 1:
            raise ValueError(f"a call takes 1 unit or more, not {units}")
        claims = min(units, 2**31 - 1), bool(background), bool(retry)
        claiming = self._claim(*claims)
        origin = self._origin or self
        claiming._claims, claiming._origin, claiming._declared = claims, origin, self._declared
        claiming._listeners, claiming._changes = [], None
        claiming._patience = self._patience
        claiming._judge_result = self._judge_result
        claiming._judges_failures = self._judges_failures
        # Events of its calls are told by the breaker that it was made of.
        claiming._watch = origin._tell
        self.store._add(claiming)
        return claiming

    # Looking and changing

    def snapshot(self) -> dict[str, Any]:
        """Return everything about the breaker, as ``cbctl status --json`` prints it."""
        import json

        snapshot: dict[str, Any] = json.loads(self._snapshot())
        return snapshot

    @property
    def health(self) -> str:
        """``shared`` or ``untried``, or a sentence that says why this process is on its own."""
        code, text = self._health()
        return {0: "shared", 7: "untried"}.get(code, text)

    def reset(self, reason: str | None = None) -> None:
        """Close the breaker and clear its counters, in every process."""
        self._reset(for_people(reason, "a reason"))
        self._log_changes()
        self._tell()

    def trip(self, open_for: Seconds | None = None, reason: str | None = None) -> None:
        """Open the breaker now, for a time, or for as long as its policy says."""
        self._trip(0 if open_for is None else nanoseconds(open_for), for_people(reason, "a reason"))
        self._log_changes()
        self._tell()

    def hold(self, hold_for: Seconds, reason: str | None = None) -> None:
        """Hold the calls of every process for a time, because the resource works and has asked to be left alone.

        It is no failure. Until then calls are rejected, with the cause ``held``; then one call goes first. If calls
        are held for longer already, nothing changes.
        """
        time = nanoseconds(hold_for)
        if time:
            self._hold(time, for_people(reason, "a reason"))
            self._tell()

    def end_hold(self, reason: str | None = None) -> None:
        """End a hold, so that all calls may go; without one, nothing changes."""
        self._end_hold(for_people(reason, "a reason"))
        self._tell()

    def force(
        self, mode: Mode, duration: Seconds | None = None, reason: str | None = None
    ) -> None:
        """Set a mode for a time, or until it is set again; ``automatic`` ends it."""
        if not isinstance(mode, str) or mode not in MODES:
            raise ValueError(f"there is no mode {mode!r}: use one of {', '.join(MODES)}")
        time = 0 if duration is None else nanoseconds(duration)
        self._force(MODES[mode], time, for_people(reason, "a reason"))
        self._tell()

    # Listening

    def listen(self, listener: Callable[[Event], object]) -> Callable[[], None]:
        """Call a function when this process finds that the state of the breaker has changed.

        The call that found the change calls it, after everything is written and while it holds no lock. The
        next call finds what other processes have changed; ``SharedStore.follow`` does not wait for a call.

        Returns a function that ends it.
        """
        if self._origin is not None:
            return self._origin.listen(listener)
        called(listener, "a listener")
        self._listeners.append(listener)
        self._begin_to_watch()
        return lambda: remove_listener(self._listeners, listener)

    def _begin_to_watch(self) -> None:
        if self._changes is None and self._origin is None:
            self._changes = Changes(self._first_state())
            # The extension's own, which has no reference to what it calls except this one.
            self._watch = self._tell

    def _first_state(self) -> State:
        """Return the state, but create no file for it, because nothing has happened without one."""
        return self.state if os.path.exists(self.store.path) else "closed"

    def _tell(self, found: object = None) -> None:
        """Tell listeners what a call has changed or found: a rejection, or how its failure was judged."""
        if self._origin is not None:
            self._origin._tell(found)
            return
        if self._changes is None:
            return
        store = self.store
        store._tell_health()
        if found is not None and store._call_listeners:
            store._tell_call(self.name, found)
        change = self._changes.look(lambda: self.state)
        if change is not None:
            event = Event("state", self.name, *change, None)
            for listener in [*self._listeners, *store._listeners]:
                call_listener(listener, event)

    def _follow_store(self) -> None:
        """Go on as the breaker of this name in the file that the store leads to now, for a test."""
        try:
            now = type(self)(self.store, self.name, *self._declared, Judge(None, None, None, None))
            if self._claims is not None:
                now = now.claiming(*self._claims)
        except StoreError:  # the store is closed, and so is the one that it led to
            return
        self._exchange(now)
        # A thread may be in a call of the one before, which therefore stays a while.
        self._before = now
        if self._changes is not None:
            self._changes = Changes(self._first_state())

    def _log_changes(self, before: State | None = None, after: State | None = None) -> None:
        """Write a line for each change of the state that this process has made since it last did so."""
        self.store._log_changes(self.name, self._health()[0], before, after)
