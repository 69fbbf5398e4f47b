"""The breaker: what its extension type does not have to do quickly."""

from __future__ import annotations

import sys

from . import _extension
from ._judge import OUTCOMES, SUCCESS, Judge
from ._policy import nanoseconds

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Generator
    from types import FrameType
    from typing import Any, Literal, ParamSpec, Self, TypeVar

    from ._judge import Ending, OpenFor, ResultRules, Rules
    from ._policy import Seconds
    from ._store import SharedStore

    P = ParamSpec("P")
    T = TypeVar("T")
    F = TypeVar("F", bound=Callable[..., Any])

    State = Literal["closed", "open", "half_open"]
    Mode = Literal["automatic", "forced_open", "forced_closed", "observe"]
    Outcome = Literal["success", "failure", "permanent_failure", "ignored"]
    Verdict = Literal["counted", "outdated", "refused"]

MODES = {"automatic": 0, "forced_open": 1, "forced_closed": 2, "observe": 3}

_GENERATOR, _COROUTINE, _ASYNC_GENERATOR = 0x20, 0x80, 0x200  # flags of code objects


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

        flags = _flags(function)
        guarded: Any
        if flags & _COROUTINE:
            guarded = self._guarded_coroutine(function)
        elif flags & _ASYNC_GENERATOR:
            guarded = self._guarded_async_generator(function)
        elif flags & _GENERATOR:
            guarded = self._guarded_generator(function)
        else:
            guarded = self._guard(function)
        named: Any = update_wrapper(guarded, function)
        return named  # type: ignore[no-any-return]

    def _guarded_coroutine(self, function: Any) -> Any:
        drive = self._drive

        async def guarded(*args: Any, **kwargs: Any) -> Any:
            return await drive(function, args, kwargs)

        return guarded

    def _guarded_generator(self, function: Any) -> Any:
        def guarded(*args: Any, **kwargs: Any) -> Generator[Any, Any, Any]:
            with self:
                return (yield from function(*args, **kwargs))

        return guarded

    def _guarded_async_generator(self, function: Any) -> Any:
        async def guarded(*args: Any, **kwargs: Any) -> AsyncGenerator[Any, Any]:
            async with self:
                generator = function(*args, **kwargs)
                step = generator.__anext__()
                while True:
                    try:
                        value = await step
                    except StopAsyncIteration:
                        return
                    try:
                        step = generator.asend((yield value))
                    except GeneratorExit:
                        await generator.aclose()
                        raise
                    except BaseException as error:
                        step = generator.athrow(error)

        return guarded

    def acquire(self) -> Permit:
        """Ask for the right to make one call, which you report on with ``Permit.report``.

        A permit that is dropped without a report says nothing about the resource.
        """
        permit = self._permit()
        permit._enter(True)
        self._tell()
        return permit

    async def acquire_async(self) -> Permit:
        """Do what ``acquire`` does, without blocking the event loop."""
        permit = self._permit()
        if not permit._enter(False):
            permit = await _aio().enter(self)
            self._tell()
        return permit

    def acquire_token(self, owner_pid: int | None = None) -> str:
        """Ask for the right to make one call that another process reports on.

        Give it the token, for ``SharedStore.report``. If ``owner_pid`` ends, the slot of a probe is
        free at once; without it, it is free when the probe has reported, or at ``probe_timeout``.
        """
        return self._acquire_token(owner_pid or 0)

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
        self._reset(reason)
        self._tell()

    def trip(self, open_for: Seconds | None = None, reason: str | None = None) -> None:
        """Open the breaker now, for a time, or for as long as its policy says."""
        self._trip(0 if open_for is None else nanoseconds(open_for), reason)
        self._tell()

    def force(
        self, mode: Mode, duration: Seconds | None = None, reason: str | None = None
    ) -> None:
        """Set a mode for a time, or until it is set again; ``automatic`` ends it."""
        if mode not in MODES:
            raise ValueError(f"there is no mode {mode!r}: use one of {', '.join(MODES)}")
        self._force(MODES[mode], 0 if duration is None else nanoseconds(duration), reason)
        self._tell()

    # Listening

    def listen(self, listener: Callable[[Event], object]) -> Callable[[], None]:
        """Call a function when this process finds that the state of the breaker has changed.

        It is called by the call that found it, after everything is written, and holds no lock. Other
        processes' changes are found by the next call; ``SharedStore.follow`` does not wait for one.

        Returns a function that ends it.
        """
        self._listeners.append(listener)
        self._begin_to_watch()
        return lambda: remove_listener(self._listeners, listener)

    def _begin_to_watch(self) -> None:
        if self._seen is None:
            self._seen = self.state
            # The extension's own, which has no reference to what it calls except this one.
            self._watch = self._tell

    def _tell(self) -> None:
        before = self._seen
        if before is None:
            return
        store = self.store
        store._tell_health()
        self._seen = state = self.state
        if state != before:
            event = Event("state", self.name, before, state, None)
            for listener in [*self._listeners, *store._listeners]:
                call_listener(listener, event)

    # What the extension calls

    def _permit(self) -> Permit:
        return Permit(self)

    def _is_coroutine_function(self, function: object) -> bool:
        return bool(_flags(function) & _COROUTINE)

    async def _enter_slowly(self, frame: FrameType) -> None:
        permit = await _aio().enter(self)
        self._tell()
        self._place(frame, permit)

    async def _leave_slowly(self, permit: Permit, ending: Ending | None) -> None:
        await _aio().leave(permit, *(ending or (SUCCESS, None, 0)))
        self._tell()

    async def _call_slowly(
        self, function: Callable[..., Awaitable[T]], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> T:
        permit = await _aio().enter(self)
        self._tell()
        result: T = await self._continue(permit, _run(function, args, kwargs))
        return result

    def _watch_generator(self, permit: Permit, generator: Any) -> Any:
        if hasattr(generator, "__anext__"):
            return _watch_async_generator(permit, generator)
        return _watch_generator(permit, generator)


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
        self.breaker._tell()
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
            self.breaker._tell()
        return verdict  # type: ignore[return-value]

    def renew(self, duration: Seconds | None = None) -> bool:
        """Renew the lease of a probe that makes progress; False if it has lost its lease.

        Without a duration it lasts for ``probe_timeout`` from now on.
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
            text = error.encode(errors="replace")
        if open_for is not None:
            time = nanoseconds(open_for)
        return number, text, time, 0 if elapsed is None else max(1, nanoseconds(elapsed))


class Event:
    """Something that a listener is told."""

    __slots__ = ("after", "before", "kind", "message", "name")

    def __init__(
        self, kind: str, name: str | None, before: str | None, after: str, message: str | None
    ) -> None:
        self.kind = kind
        """``state`` for a breaker, or ``store`` for whether the store can be used."""
        self.name = name
        """The name of the breaker; None for an event of the store."""
        self.before = before
        """The state before; None if it is not known."""
        self.after = after
        """The state now: of a breaker, or ``available`` or ``unavailable``."""
        self.message = message
        """Why the store cannot be used."""

    def __repr__(self) -> str:
        return f"<Event {self.kind} {self.name}: {self.before} -> {self.after}>"


def call_listener(listener: Callable[[Event], object], event: Event) -> None:
    """Call a listener, whose errors are nobody else's."""
    try:
        listener(event)
    except Exception:
        import logging

        logging.getLogger("shared_breaker").exception("a listener failed for %r", event)


def outcome_number(outcome: str) -> int:
    """Return the number of an outcome."""
    if outcome not in OUTCOMES:
        raise ValueError(f"there is no outcome {outcome!r}: use one of {', '.join(OUTCOMES)}")
    return OUTCOMES[outcome]


def remove_listener(
    listeners: list[Callable[[Event], object]], listener: Callable[[Event], object]
) -> None:
    """Remove a listener if it is there."""
    if listener in listeners:
        listeners.remove(listener)


def _aio() -> Any:
    """Return the module for asyncio, which takes long to import."""
    from . import _aio

    return _aio


def _flags(function: Any) -> int:
    """Return the flags of a function's code, as ``inspect`` finds them; it takes long to import."""
    functools = sys.modules.get("functools")
    while True:
        if functools is not None and isinstance(function, functools.partial):
            function = function.func
        elif hasattr(function, "__func__"):
            function = function.__func__
        else:
            break
    code = getattr(function, "__code__", None)
    if code is None and not isinstance(function, type):
        code = getattr(getattr(type(function), "__call__", None), "__code__", None)
    flags: int = getattr(code, "co_flags", 0)
    return flags


async def _run(
    function: Callable[..., Awaitable[T]], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> T:
    return await function(*args, **kwargs)


def _watch_generator(
    permit: Permit, generator: Generator[Any, Any, T]
) -> Generator[Any, Any, T]:
    try:
        result = yield from generator
    except BaseException as error:
        permit.report(error)
        raise
    permit.report()
    return result


async def _watch_async_generator(
    permit: Permit, generator: AsyncGenerator[Any, Any]
) -> AsyncGenerator[Any, Any]:
    step: Any = generator.__anext__()
    try:
        while True:
            try:
                value = await step
            except StopAsyncIteration:
                break
            try:
                step = generator.asend((yield value))
            except GeneratorExit:
                await generator.aclose()
                raise
            except BaseException as error:
                step = generator.athrow(error)
    except GeneratorExit:
        permit.report("ignored")
        raise
    except BaseException as error:
        await permit.report_async(error)
        raise
    await permit.report_async()
