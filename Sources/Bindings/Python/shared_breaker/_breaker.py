"""Breakers and permits: their slow-path methods. The hot path is in C."""

from __future__ import annotations

import _thread
from time import monotonic

from . import _extension
from ._errors import Rejected, StoreError
from ._functions import (
    ASYNC_GENERATOR,
    COROUTINE,
    GENERATOR,
    flags_of,
    guard_async_generator,
    guard_generator,
    resemble_function,
)
from ._http import duration
from ._judge import FAILURE, IGNORED, SUCCESS, judged, named_time, outcome_number
from ._observed import ObservedBreaker
from ._policy import elapsed_nanoseconds, nanoseconds
from ._signals import is_of_signal
from ._text import for_people

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from types import FrameType
    from typing import Any, Self, TypeVar

    from ._judge import Ending, Outcome, Verdict
    from ._policy import Seconds

    T = TypeVar("T")
    F = TypeVar("F", bound=Callable[..., Any])


# Stands for a result that was not given, because None is one.
_NO_RESULT: object = object()


class Breaker(ObservedBreaker):
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

    __slots__ = ()

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

    def acquire(
        self, *, wait: Seconds | None = None, units: int | None = None, background: bool | None = None,
        retry: bool | None = None,
    ) -> Permit:
        """Ask for the right to make one call, which you report on with ``Permit.report``.

        A permit that is dropped without a report is ignored: the call tells nothing about the resource.

        ``wait`` is how long this call waits for room, for the end of a hold, or in a ramp, if that is less than the
        ``queue_timeout`` of the policy: 0 to take a permit now or not at all. None waits as the policy says.
        ``units``, ``background`` and ``retry`` are those of ``claiming``.
        """
        wait_ns = None if wait is None else nanoseconds(wait)
        permit = self._claiming(units, background, retry)._permit()
        try:
            if wait_ns is None:
                permit._enter(True)
            # A call that need not wait need not know the policy either.
            elif not permit._enter(False):
                if self._has_to_read_patience(wait_ns):
                    self._read_patience()
                permit._has_waited(self._wait_used_up(wait_ns))
                permit._enter(True)
        except Rejected as rejected:
            self._tell(rejected)
            raise
        self._tell()
        return permit

    async def acquire_async(
        self, *, wait: Seconds | None = None, units: int | None = None, background: bool | None = None,
        retry: bool | None = None,
    ) -> Permit:
        """Do what ``acquire`` does, without blocking the event loop."""
        wait_ns = None if wait is None else nanoseconds(wait)
        permit = self._claiming(units, background, retry)._permit()
        try:
            if permit._enter(False):
                return permit
            if wait_ns is not None:
                if self._has_to_read_patience(wait_ns):
                    await _aio().in_thread(self._read_patience)
                permit._has_waited(self._wait_used_up(wait_ns))
            await _aio().enter(permit)
        except Rejected as rejected:
            self._tell(rejected)
            raise
        self._tell()
        return permit

    def _claiming(self, units: int | None, background: bool | None, retry: bool | None) -> Self:
        is_plain = units is None and background is None and retry is None
        return self if is_plain else self.claiming(units, background, retry)

    def _wait_used_up(self, wait: int) -> int:
        """Return for how long a call has to count as having waited already, so that it waits for a time and no longer."""
        return max(0, self._patience[0] - wait) if wait else _extension.LONGEST

    def _has_to_read_patience(self, wait: int) -> bool:
        return wait > 0 and monotonic() > self._patience[1]

    def _read_patience(self) -> None:
        """Read how long callers may wait, unless another call has just done so: many may begin to wait at once."""
        if monotonic() <= self._patience[1]:
            return
        try:
            text = self.snapshot()["policy"]["queue-timeout"]
        except StoreError:  # asking for the permit says what follows from it
            text = None
        self._patience = round((duration(text or "") or 0) * 1e9), monotonic() + 1

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

    # Changes, without blocking the event loop

    async def trip_async(self, open_for: Seconds | None = None, reason: str | None = None) -> None:
        """Do what ``trip`` does, without blocking the event loop."""
        await _aio().in_thread(lambda: self.trip(open_for, reason))

    async def hold_async(self, hold_for: Seconds, reason: str | None = None) -> None:
        """Do what ``hold`` does, without blocking the event loop."""
        await _aio().in_thread(lambda: self.hold(hold_for, reason))

    @property
    def environment(self) -> dict[str, str]:
        """The environment of a program inside of the calls that this code is inside of.

        A program that you start inside of a call makes its own calls of the same breaker with the room of that
        one, instead of waiting for it::

            with gpu:
                subprocess.run(command, env={**os.environ, **gpu.environment})

        Empty without a limit. The values are worth nothing once the call has ended.
        """
        return self.store._environment_of()

    # Called by the extension

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
    """The right to make one call. Report how it went, once, or make the call in a block::

        with llm.acquire() as call:
            answer = ask()
            if answer.status == 429:
                call.hold(answer.retry_after)

    Unless you have reported before its end, the block reports a success, or the exception that ends it. In a
    coroutine, write ``async with await llm.acquire_async() as call:``.
    """

    __slots__ = ()

    if TYPE_CHECKING:

        @property
        def breaker(self) -> Breaker: ...

    def __repr__(self) -> str:
        return f"<Permit of {self.breaker.name!r}: {self.kind or 'reported'}>"

    def report(
        self,
        outcome: Outcome | BaseException | None = None,
        error: str | None = None,
        *,
        result: object = _NO_RESULT,
        open_for: Seconds | None = None,
        hold_for: Seconds | None = None,
        elapsed: Seconds | None = None,
    ) -> Verdict:
        """Report how the call went, and return what became of the report.

        Without an ``outcome`` the call has succeeded, or failed if there is an ``error``. ``outcome`` may be an
        exception, which the breaker then judges, as it judges ``result``. ``hold`` means that the resource works and
        asks to be left alone, for ``hold_for`` if it has named a time: it is no failure. Where the policy looks at slow
        calls, ``elapsed`` replaces the time since the permit was granted.
        """
        ending, raised = self._ending(outcome, error, result, open_for, hold_for, elapsed)
        verdict = self._report(*ending)
        if raised is not None:
            raise raised
        return verdict

    async def report_async(
        self,
        outcome: Outcome | BaseException | None = None,
        error: str | None = None,
        *,
        result: object = _NO_RESULT,
        open_for: Seconds | None = None,
        hold_for: Seconds | None = None,
        elapsed: Seconds | None = None,
    ) -> Verdict:
        """Do what ``report`` does, without blocking the event loop."""
        ending, raised = self._ending(outcome, error, result, open_for, hold_for, elapsed)
        verdict = await self._report_async(*ending)
        if raised is not None:
            raise raised
        return verdict

    def _report(self, number: int, text: bytes | None, time: int, elapsed: int = 0) -> Verdict:
        verdict = self._leave(number, text, time, elapsed, True)
        self.breaker._tell((number, text, time, elapsed) if verdict == "counted" else None)
        return verdict  # type: ignore[return-value]

    async def _report_async(self, number: int, text: bytes | None, time: int, elapsed: int = 0) -> Verdict:
        ending = number, text, time, elapsed
        verdict = self._leave(*ending, False)
        if verdict is None:
            verdict = await _aio().in_thread(lambda: self._leave(*ending, True))
        elif number in (SUCCESS, IGNORED):
            return verdict  # type: ignore[return-value]
        self.breaker._tell(ending if verdict == "counted" else None)
        return verdict  # type: ignore[return-value]

    def hold(self, hold_for: Seconds | None = None, error: str | None = None) -> Verdict:
        """Report that the resource works and asks to be left alone: for a time, or for as long as the policy says.

        In a coroutine, use ``await call.report_async("hold", hold_for=12)``.
        """
        return self.report("hold", error, hold_for=hold_for)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if self.kind:
            self.report("success" if error is None else error)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if not self.kind:
            return
        if isinstance(error, GeneratorExit):  # nothing can be awaited any more
            self.report(error)
        else:
            await self.report_async("success" if error is None else error)

    @property
    def environment(self) -> dict[str, str]:
        """The environment of a program inside of this call; see ``Breaker.environment``."""
        return self.breaker.store._environment_of(self._room())

    def renew(self, duration: Seconds | None = None) -> bool:
        """Renew the lease of a probe that is making progress; return False if it has lost the lease.

        Without a duration the lease lasts for ``probe_timeout`` from now on.
        """
        return self._renew(0 if duration is None else nanoseconds(duration))

    def _ending(
        self,
        outcome: Outcome | BaseException | None,
        error: str | None,
        result: object,
        open_for: Seconds | None,
        hold_for: Seconds | None,
        elapsed: Seconds | None,
    ) -> tuple[tuple[int, bytes | None, int, int], BaseException | None]:
        """Return the outcome, and what was raised while it was judged."""
        raised = None
        success = SUCCESS, None, 0
        if result is not _NO_RESULT:
            if outcome is not None or error is not None:
                given = "an error" if outcome is None else "an outcome"
                raise ValueError(f"give {given} or a result, which the breaker judges")
            judge = self.breaker._judge_result
            ending, raised = judged(judge, result, success) if judge else (None, None)
            number, text, time = ending or success
        elif isinstance(outcome, BaseException):
            ending, raised = judged(self.breaker._judge, outcome, (FAILURE, None, 0))
            number, text, time = ending or success
        else:
            number, text, time = outcome_number(outcome, error), None, 0
        if error is not None:
            text = for_people(error, "an error")
        named = named_time(number, open_for, hold_for)
        return (number, text, time if named is None else named, elapsed_nanoseconds(elapsed)), raised


class _Granted:
    """A call that already has its permit: leaving it reports the outcome."""

    __slots__ = ("_move_to", "_permit", "_room_of_block")

    def __init__(self, permit: Permit) -> None:
        self._permit = permit
        self._room_of_block = permit._room
        self._move_to = permit.breaker._move_to

    def __enter__(self) -> None: ...

    def __exit__(self, *ending: Any) -> None:
        self._permit.__exit__(*ending)

    async def __aenter__(self) -> None: ...

    async def __aexit__(self, *ending: Any) -> None:
        await self._permit.__aexit__(*ending)


def _aio() -> Any:
    """Return the module for asyncio, which is slow to import."""
    from . import _aio

    return _aio
