"""Breakers and permits: their slow-path methods. The hot path is in C."""

from __future__ import annotations

import _thread
import os

from . import _extension
from ._errors import Rejected, StoreError
from ._events import Changes, Event, call_listener, remove_listener
from ._functions import (
    ASYNC_GENERATOR,
    COROUTINE,
    GENERATOR,
    flags_of,
    guard_async_generator,
    guard_generator,
    resemble_function,
)
from ._judge import IGNORED, SUCCESS, Judge, outcome_number
from ._policy import elapsed_nanoseconds, nanoseconds
from ._signals import is_of_signal
from ._text import called, for_people

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from types import FrameType
    from typing import Any, Literal, ParamSpec, Self, TypeVar

    from ._judge import Ending, Outcome, Verdict
    from ._policy import Seconds
    from ._store import Store

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

    __slots__ = ("_before", "_changes", "_declared", "_listeners")

    if TYPE_CHECKING:
        store: Store
        _listeners: list[Callable[[Event], object]]
        _changes: Changes | None
        _declared: tuple[str | None, int]
        _before: Breaker

    def __new__(
        cls,
        store: Store,
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
        self._declared = policy, on_store_failure
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
            raise TypeError(f"{function!r} is not a function, so it cannot be put behind a breaker")
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

        A permit that is dropped without a report is ignored: the call tells nothing about the resource.
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
            await _aio().enter(permit)
        except Rejected as rejected:
            self._tell(rejected)
            raise
        self._tell()
        return permit

    def acquire_token(self, owner_pid: int | None = None) -> str:
        """Ask for the right to make one call that another process reports on.

        Pass it the token, for ``SharedStore.report``. If the process ``owner_pid`` ends, the slot of a probe is
        free at once. Without one, it is free when the probe has reported, or after ``probe_timeout``.
        """
        try:
            return self._acquire_token(owner_pid or 0)
        except Rejected as rejected:
            self._tell(rejected)
            raise

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
        called(listener, "a listener")
        self._listeners.append(listener)
        self._begin_to_watch()
        return lambda: remove_listener(self._listeners, listener)

    def _begin_to_watch(self) -> None:
        if self._changes is None:
            self._changes = Changes(self._first_state())
            # The extension's own, which has no reference to what it calls except this one.
            self._watch = self._tell

    def _first_state(self) -> State:
        """Return the state, but create no file for it, because nothing has happened without one."""
        return self.state if os.path.exists(self.store.path) else "closed"

    def _tell(self, found: object = None) -> None:
        """Tell listeners what a call has changed or found: a rejection, or how its failure was judged."""
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
        except StoreError:  # the store is closed, and so is the one that it led to
            return
        self._exchange(now)
        # A thread may be in a call of the one before, which therefore stays a while.
        self._before = now
        if self._changes is not None:
            self._changes = Changes(self._first_state())

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
        permit = self._permit()
        try:
            await _aio().enter(permit)
        except Rejected as rejected:
            self._tell(rejected)
            raise
        self._tell()
        self._place(frame, permit)

    async def _leave_slowly(self, permit: Permit, ending: Ending | None) -> None:
        verdict = await _aio().leave(permit, *(ending or (SUCCESS, None, 0)))
        self._tell(ending if verdict == "counted" else None)

    def _leave_elsewhere(self, permit: Permit, *ending: Any) -> None:
        _thread.start_new_thread(permit._leave, (*ending, True))

    async def _call_slowly(self, work: Awaitable[T]) -> T:
        permit = self._permit()
        try:
            await _aio().enter(permit)
        except BaseException as error:
            getattr(work, "close", int)()  # or Python would warn that it was never awaited
            self._tell(error)
            raise
        self._tell()
        return await self._continue(permit, work)

    def _watch_generator(self, permit: Permit, generator: Any) -> Any:
        if hasattr(generator, "gi_code") and generator.gi_code.co_flags & COROUTINE:
            return self._continue(permit, generator)
        guard = guard_async_generator if hasattr(generator, "__anext__") else guard_generator
        return guard(_Granted(permit), lambda: generator)()


class Permit(_extension.Permit):
    """The right to make one call. Report how it went, once."""

    __slots__ = ()

    if TYPE_CHECKING:

        @property
        def breaker(self) -> Breaker: ...

    def __repr__(self) -> str:
        return f"<Permit of {self.breaker.name!r}: {self.kind or 'reported'}>"

    def report(
        self,
        outcome: Outcome | BaseException = "success",
        error: str | None = None,
        *,
        open_for: Seconds | None = None,
        elapsed: Seconds | None = None,
    ) -> Verdict:
        """Report how the call went, and return what became of the report.

        ``outcome`` may be an exception, which the breaker then judges. Where the policy looks at slow
        calls, ``elapsed`` replaces the time since the permit was granted.
        """
        ending = self._ending(outcome, error, open_for, elapsed)
        verdict = self._leave(*ending, True)
        self.breaker._tell(ending if verdict == "counted" else None)
        return verdict  # type: ignore[return-value]

    async def report_async(
        self,
        outcome: Outcome | BaseException = "success",
        error: str | None = None,
        *,
        open_for: Seconds | None = None,
        elapsed: Seconds | None = None,
    ) -> Verdict:
        """Do what ``report`` does, without blocking the event loop."""
        ending = self._ending(outcome, error, open_for, elapsed)
        verdict = self._leave(*ending, False)
        if verdict is None:
            verdict = await _aio().in_thread(lambda: self._leave(*ending, True))
        elif ending[0] in (SUCCESS, IGNORED):
            return verdict  # type: ignore[return-value]
        self.breaker._tell(ending if verdict == "counted" else None)
        return verdict  # type: ignore[return-value]

    def renew(self, duration: Seconds | None = None) -> bool:
        """Renew the lease of a probe that is making progress; return False if it has lost the lease.

        Without a duration the lease lasts for ``probe_timeout`` from now on.
        """
        return self._renew(0 if duration is None else nanoseconds(duration))

    def _ending(
        self,
        outcome: Outcome | BaseException,
        error: str | None,
        open_for: Seconds | None,
        elapsed: Seconds | None,
    ) -> tuple[int, bytes | None, int, int]:
        if isinstance(outcome, BaseException):
            number, text, time = self.breaker._judge(outcome)
        else:
            number, text, time = outcome_number(outcome), None, 0
        if error is not None:
            text = for_people(error, "an error")
        if open_for is not None:
            time = nanoseconds(open_for)
        return number, text, time, elapsed_nanoseconds(elapsed)


class _Granted:
    """A call that already has its permit: leaving it reports the outcome."""

    __slots__ = ("_permit",)

    def __init__(self, permit: Permit) -> None:
        self._permit = permit

    def __enter__(self) -> None: ...

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        self._permit.report("success" if error is None else error)

    async def __aenter__(self) -> None: ...

    async def __aexit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, GeneratorExit):  # nothing can be awaited any more
            self._permit.report(error)
        else:
            await self._permit.report_async("success" if error is None else error)


def _aio() -> Any:
    """Return the module for asyncio, which is slow to import."""
    from . import _aio

    return _aio
