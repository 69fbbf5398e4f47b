"""The breaker: what its extension type does not have to do quickly."""

from __future__ import annotations

import os

from . import _extension
from ._errors import Rejected, StoreError
from ._events import Event, call_listener, remove_listener
from ._functions import (
    ASYNC_GENERATOR,
    COROUTINE,
    GENERATOR,
    Granted,
    flags_of,
    guard_async_generator,
    guard_generator,
    resemble_function,
)
from ._judge import SUCCESS, Judge
from ._permit import Permit
from ._policy import nanoseconds
from ._signals import is_of_signal
from ._text import called, for_people

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from types import FrameType
    from typing import Any, Literal, ParamSpec, Self, TypeVar

    from ._judge import Ending
    from ._policy import Seconds
    from ._store import SharedStore

    P = ParamSpec("P")
    T = TypeVar("T")
    F = TypeVar("F", bound=Callable[..., Any])

    State = Literal["closed", "open", "half_open"]
    Mode = Literal["automatic", "forced_open", "forced_closed", "observe"]

MODES = {"automatic": 0, "forced_open": 1, "forced_closed": 2, "observe": 3}


class Breaker(_extension.Breaker):
    """A circuit breaker that all processes of the host share. Get one with ``breaker(name)``.

    Use it in any of these ways; all of them raise ``Rejected``, and do not run the work, while the
    breaker rejects calls::

        with payments:
            charge(order)

        async with payments:
            await charge(order)

        @payments
        def charge(order): ...

        payments.call(charge, order)

    A healthy call takes no lock, makes no system call and keeps the GIL. A failure is written to the
    file, without the GIL, and in ``async with`` and coroutine functions by another thread.
    """

    __slots__ = ("_listeners", "_seen")

    if TYPE_CHECKING:
        store: SharedStore
        _listeners: list[Callable[[Event], object]]
        _seen: State | None

    def __new__(
        cls,
        store: SharedStore,
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
        self._seen = None
        return self

    def __repr__(self) -> str:
        return f"<Breaker {self.name!r}>"

    def __reduce__(self) -> str | tuple[Any, ...]:
        raise TypeError("a breaker cannot be pickled: get it by its name in each process")

    def __copy__(self) -> Self:
        return self

    def __deepcopy__(self, memo: object) -> Self:
        return self

    # Calls

    def __call__(self, function: F, /) -> F:
        """Put a function behind the breaker: also a coroutine function, or any generator function.

        A call of a generator function lasts from its first value to its end.
        """
        from functools import update_wrapper

        if not callable(function):
            raise TypeError(f"{function!r} is no function, so it cannot be put behind a breaker")
        flags = flags_of(function)
        guarded: Any
        if flags & COROUTINE:
            guarded = self._guard(function, True)
            resemble_function(guarded, function)
        elif flags & ASYNC_GENERATOR:
            guarded = guard_async_generator(self, function)
        elif flags & GENERATOR:
            guarded = guard_generator(self, function)
        else:
            guarded = self._guard(function, False)
        named: Any = update_wrapper(guarded, function)
        return named  # type: ignore[no-any-return]

    def acquire(self) -> Permit:
        """Ask for the right to make one call, which you report on with ``Permit.report``.

        A permit that is dropped without a report says nothing about the resource.
        """
        permit = self._permit()
        try:
            permit._enter(True)
        except Rejected as rejected:
            self._tell(rejected)
            raise
        self._tell()
        return permit

    async def acquire_async(self) -> Permit:
        """Do what ``acquire`` does, without blocking the event loop."""
        permit = self._permit()
        try:
            if permit._enter(False):
                return permit
            granted: Permit = await _aio().enter(self)
        except Rejected as rejected:
            self._tell(rejected)
            raise
        self._tell()
        return granted

    def acquire_token(self, owner_pid: int | None = None) -> str:
        """Ask for the right to make one call that another process reports on.

        Give it the token, for ``SharedStore.report``. If ``owner_pid`` ends, the slot of a probe is
        free at once; without it, it is free when the probe has reported, or at ``probe_timeout``.
        """
        try:
            return self._acquire_token(owner_pid or 0)
        except Rejected as rejected:
            self._tell(rejected)
            raise

    # Looking and steering

    def snapshot(self) -> dict[str, Any]:
        """Return all that is known of the breaker, as in ``cbctl status --json``."""
        import json

        snapshot: dict[str, Any] = json.loads(self._snapshot())
        return snapshot

    @property
    def health(self) -> str:
        """``shared`` or ``untried``, or the words for why this process is on its own."""
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

        It is called by the call that found it, after everything is written, and holds no lock. Other
        processes' changes are found by the next call; ``SharedStore.follow`` does not wait for one.

        Returns a function that ends it.
        """
        called(listener, "a listener")
        self._listeners.append(listener)
        self._begin_to_watch()
        return lambda: remove_listener(self._listeners, listener)

    def _begin_to_watch(self) -> None:
        if self._seen is None:
            self._seen = self._first_state()
            # The extension's own, which has no reference to what it calls except this one.
            self._watch = self._tell

    def _first_state(self) -> State:
        """Return the state, but create no file for it, because nothing has happened without one."""
        return self.state if os.path.exists(self.store.path) else "closed"

    def _tell(self, found: object = None) -> None:
        """Tell listeners what a call has changed or found: a rejection, or how its failure was judged."""
        if self._seen is None:
            return
        store = self.store
        store._tell_health()
        if found is not None and store._call_listeners:
            store._tell_call(self.name, found)
        while True:
            before = self._seen
            try:
                state = self.state
            except StoreError:  # a call goes on without the store
                return
            if state == before:
                return
            # Another thread may have told of a change that is newer than what was read. None comes
            # between these two lines, which call nothing.
            if self._seen is before:
                self._seen = state
                break
        event = Event("state", self.name, before, state, None)
        for listener in [*self._listeners, *store._listeners]:
            call_listener(listener, event)

    # What the extension calls

    def _log_changes(self, before: State | None = None, after: State | None = None) -> None:
        """Write a line for each change of the state that this process has made since it last did so."""
        self.store._log_changes(self.name, self._health()[0], before, after)

    def _permit(self) -> Permit:
        return Permit(self)

    def _is_coroutine_function(self, function: object) -> bool:
        try:
            return bool(flags_of(function) & COROUTINE)
        except Exception as error:  # an object that fails when it is asked for its code
            if is_of_signal(error):
                raise
            return False

    async def _enter_slowly(self, frame: FrameType) -> None:
        try:
            permit = await _aio().enter(self)
        except Rejected as rejected:
            self._tell(rejected)
            raise
        self._tell()
        self._place(frame, permit)

    async def _leave_slowly(self, permit: Permit, ending: Ending | None) -> None:
        verdict = await _aio().leave(permit, *(ending or (SUCCESS, None, 0)))
        self._tell(ending if verdict == "counted" else None)

    async def _call_slowly(self, work: Awaitable[T]) -> T:
        try:
            permit = await _aio().enter(self)
        except BaseException as error:
            getattr(work, "close", int)()  # or it would be said that it was never awaited
            self._tell(error)
            raise
        self._tell()
        return await self._continue(permit, work)

    def _watch_generator(self, permit: Permit, generator: Any) -> Any:
        if hasattr(generator, "gi_code") and generator.gi_code.co_flags & COROUTINE:
            return self._continue(permit, generator)
        guard = guard_async_generator if hasattr(generator, "__anext__") else guard_generator
        return guard(Granted(permit), lambda: generator)()


def _aio() -> Any:
    """Return the module for asyncio, which takes long to import."""
    from . import _aio

    return _aio
