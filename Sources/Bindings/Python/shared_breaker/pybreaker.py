"""The interface of pybreaker 1.4, over breakers that all processes of the host share.

A service moves by changing one import::

    from shared_breaker import pybreaker

    db_breaker = pybreaker.CircuitBreaker(fail_max=5, reset_timeout=60, name="db")

Breakers with the same name are one breaker, in all processes. The guide "Using It from Python" lists
what differs on purpose.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import itertools
import os
import types
import warnings

from . import default_store
from ._errors import BreakerError, Rejected, StoreError
from ._events import Changes
from ._functions import COROUTINE, flags_of
from ._judge import SUCCESS, cancellation_types
from ._shared_store import SharedStore

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable, Iterator
    from typing import Any, TypeVar

    from ._breaker import Breaker, Permit

    T = TypeVar("T")
    Exclusion = type[BaseException] | Callable[[Any], Any]

__all__ = (
    "CircuitBreaker",
    "CircuitBreakerError",
    "CircuitBreakerListener",
    "CircuitMemoryStorage",
    "CircuitRedisStorage",
    "STATE_CLOSED",
    "STATE_HALF_OPEN",
    "STATE_OPEN",
)

STATE_OPEN = "open"
STATE_CLOSED = "closed"
STATE_HALF_OPEN = "half-open"

_NO_STORAGE = (
    "a shared breaker keeps its state in its store: leave state_storage out, and give a name instead "
    "of a namespace")
_numbers = itertools.count(1)
_NAMES = {"open": STATE_OPEN, "closed": STATE_CLOSED, "half_open": STATE_HALF_OPEN}


class CircuitBreakerError(BreakerError):
    """The circuit is open, or the call has opened it."""

    retry_after: float | None = None
    """The seconds after which another call may be permitted; None if that is unknown."""


class CircuitBreakerListener:
    """Derive from it, and override what you want to be told."""

    def before_call(
        self, cb: CircuitBreaker, func: Callable[..., Any], *args: Any, **kwargs: Any
    ) -> None:
        """The breaker is about to call a function."""

    def failure(self, cb: CircuitBreaker, exc: BaseException) -> None:
        """A function has failed."""

    def success(self, cb: CircuitBreaker) -> None:
        """A function has succeeded."""

    def state_change(
        self,
        cb: CircuitBreaker,
        old_state: CircuitBreakerState | None,
        new_state: CircuitBreakerState,
    ) -> None:
        """The state has changed, in any process; the next call of this process tells."""


class CircuitBreakerStorage:
    """Can be imported; using it raises an error that says what to do instead."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        """Refuse to be made."""
        raise TypeError(_NO_STORAGE)


class CircuitMemoryStorage(CircuitBreakerStorage):
    """Is not needed."""


class CircuitRedisStorage(CircuitBreakerStorage):
    """Is not needed."""


class CircuitBreakerState:
    """A state, which has a name."""

    def __init__(self, cb: CircuitBreaker, name: str) -> None:
        self._breaker = cb
        self._name = name

    @property
    def name(self) -> str:
        """``closed``, ``open`` or ``half-open``."""
        return self._name


class CircuitClosedState(CircuitBreakerState):
    """Calls go through."""


class CircuitOpenState(CircuitBreakerState):
    """Calls are rejected."""


class CircuitHalfOpenState(CircuitBreakerState):
    """A call finds out whether the circuit can be closed."""


_STATES: dict[str, type[CircuitBreakerState]] = {
    STATE_CLOSED: CircuitClosedState,
    STATE_OPEN: CircuitOpenState,
    STATE_HALF_OPEN: CircuitHalfOpenState,
}


class CircuitBreaker:
    """A circuit breaker with pybreaker's interface."""

    def __init__(
        self,
        fail_max: int = 5,
        reset_timeout: float = 60,
        success_threshold: int = 1,
        exclude: Iterable[Exclusion] | None = None,
        listeners: Iterable[CircuitBreakerListener] | None = None,
        state_storage: None = None,
        name: str | None = None,
        throw_new_error_on_trip: bool = True,
        *,
        store: SharedStore | None = None,
    ) -> None:
        """Get the breaker with a name from ``store``, or from the default store."""
        if state_storage is not None:
            raise TypeError(_NO_STORAGE)
        self._fail_max = fail_max
        self._reset_timeout = reset_timeout
        self._success_threshold = success_threshold
        self._exclude: list[Exclusion] = list(exclude or [])
        self._listeners: list[CircuitBreakerListener] = list(listeners or [])
        self._throw_new_error_on_trip = throw_new_error_on_trip
        self._name = name
        if name is None:
            warnings.warn(
                "a circuit breaker without a name is not shared with other processes: give it one",
                stacklevel=2)
        self._shared_name = name or f"pybreaker-{os.getpid()}-{next(_numbers)}"
        self._store = store or (_private_store() if name is None else default_store())
        self._inner: Breaker
        # The opening, by its generation, that half_open() has made to end with the next call.
        self._half_opened: int | None = None
        self._declare()
        self._changes = Changes(_NAMES[self._inner._first_state()])

    def _declare(self) -> None:
        self._inner = self._store.breaker(
            self._shared_name,
            max_failures=self._fail_max,
            open_for=max(self._reset_timeout, 0.001),
            successes_to_close=self._success_threshold,
        )

    # Policy

    @property
    def fail_max(self) -> int:
        """The number of failures in a row that opens the circuit."""
        return self._fail_max

    @fail_max.setter
    def fail_max(self, number: int) -> None:
        self._fail_max = number
        self._declare()

    @property
    def reset_timeout(self) -> float:
        """The seconds for which the circuit stays open."""
        return self._reset_timeout

    @reset_timeout.setter
    def reset_timeout(self, timeout: float) -> None:
        self._reset_timeout = timeout
        self._declare()

    @property
    def success_threshold(self) -> int:
        """The number of successes that closes the circuit."""
        return self._success_threshold

    @success_threshold.setter
    def success_threshold(self, threshold: int) -> None:
        self._success_threshold = threshold
        self._declare()

    @property
    def name(self) -> str | None:
        """The name, which all processes share."""
        return self._name

    @name.setter
    def name(self, name: str) -> None:
        self._name = self._shared_name = name
        self._declare()

    # State

    @property
    def current_state(self) -> str:
        """``closed``, ``open`` or ``half-open``."""
        state = _NAMES[self._inner.state]
        half_opened = self._half_opened
        if half_opened is None:
            return state
        if state == STATE_OPEN and self._inner.snapshot()["generation"] == half_opened:
            return STATE_HALF_OPEN
        self._half_opened = None
        return state

    @property
    def state(self) -> CircuitBreakerState:
        """The state as an object; listeners are told if it has changed.

        It is the last one that was seen if the store is closed.
        """
        self._notice()
        return self._state_named(self._changes.last)

    @state.setter
    def state(self, name: str) -> None:
        if name not in _STATES:
            raise ValueError(f"Unknown state {name!r}, valid states: {', '.join(_STATES)}")
        {STATE_OPEN: self.open, STATE_CLOSED: self.close, STATE_HALF_OPEN: self.half_open}[name]()

    @property
    def fail_counter(self) -> int:
        """The number of failures in a row, in all processes."""
        return int(self._inner.snapshot().get("consecutive_failures") or 0)

    @property
    def success_counter(self) -> int:
        """The number of successes since the circuit was half-opened."""
        return int(self._inner.snapshot().get("probe_successes") or 0)

    def open(self) -> bool:
        """Open the circuit, in all processes."""
        self._half_opened = None
        self._inner.trip()
        self._notice()
        return self._throw_new_error_on_trip

    def half_open(self) -> None:
        """Let the next call decide, in any process."""
        self._inner.trip(1e-9)
        self._half_opened = self._inner.snapshot()["generation"]
        self._notice()

    def close(self) -> None:
        """Close the circuit, in all processes."""
        self._inner.reset()
        self._notice()

    def _state_named(self, name: str) -> CircuitBreakerState:
        return _STATES[name](self, name)

    def _notice(self) -> None:
        """Tell listeners of a change of the state."""
        change = self._changes.look(lambda: self.current_state)
        if change is not None:
            before, after = map(self._state_named, change)
            for listener in self.listeners:
                listener.state_change(self, before, after)

    # Exclusions and listeners

    @property
    def excluded_exceptions(self) -> tuple[Exclusion, ...]:
        """The exceptions that are not failures."""
        return tuple(self._exclude)

    def add_excluded_exception(self, exception: Exclusion) -> None:
        """Add an exception that is not a failure."""
        self._exclude.append(exception)

    def add_excluded_exceptions(self, *exceptions: Exclusion) -> None:
        """Add exceptions that are not failures."""
        self._exclude.extend(exceptions)

    def remove_excluded_exception(self, exception: Exclusion) -> None:
        """Make an exception a failure again."""
        self._exclude.remove(exception)

    def is_system_error(self, exception: BaseException) -> bool:
        """Return whether an exception counts as a failure."""
        for exclusion in self._exclude:
            if isinstance(exclusion, type):
                if isinstance(exception, exclusion):
                    return False
            elif callable(exclusion) and exclusion(exception):
                return False
        return True

    @property
    def listeners(self) -> tuple[CircuitBreakerListener, ...]:
        """The listeners."""
        return tuple(self._listeners)

    def add_listener(self, listener: CircuitBreakerListener) -> None:
        """Add a listener."""
        self._listeners.append(listener)

    def add_listeners(self, *listeners: CircuitBreakerListener) -> None:
        """Add listeners."""
        self._listeners.extend(listeners)

    def remove_listener(self, listener: CircuitBreakerListener) -> None:
        """Remove a listener."""
        self._listeners.remove(listener)

    # Calls

    def call(self, func: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """Call a function, or raise CircuitBreakerError while the circuit is open.

        If it returns a generator, or something to await, the call lasts until that has ended.
        """
        permit = self._begin(func, args, kwargs)
        try:
            result = func(*args, **kwargs)
        except BaseException as error:
            self._fail(permit, error)
            raise
        kind = type(result)
        if kind is types.GeneratorType:
            return self._generate(permit, result)
        if hasattr(kind, "__await__"):
            return self._await(permit, result)
        self._succeed(permit)
        return result

    async def call_async(self, func: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """Call a coroutine function, without blocking the event loop."""
        try:
            permit = await self._inner.acquire_async()
        except Rejected as rejected:
            raise self._rejection(rejected) from None
        self._tell_call(func, args, kwargs)
        try:
            awaitable = func(*args, **kwargs)
        except BaseException as error:
            await self._fail_async(permit, error)
            raise
        return await self._await(permit, awaitable)

    @contextlib.contextmanager
    def calling(self) -> Iterator[None]:
        """Make a block the call."""

        def block() -> None: ...

        permit = self._begin(block, (), {})
        try:
            yield
        except BaseException as error:
            self._fail(permit, error)
            raise
        self._succeed(permit)

    def __call__(self, *call_args: Any, **call_kwargs: Any) -> Any:
        """Decorate a function, with or without parentheses."""
        is_async = call_kwargs.pop("__pybreaker_call_async", False)

        def decorate(func: Callable[..., Any]) -> Callable[..., Any]:
            if is_async or flags_of(func) & COROUTINE:

                @functools.wraps(func)
                async def guarded_coroutine(*args: Any, **kwargs: Any) -> Any:
                    return await self.call_async(func, *args, **kwargs)

                return guarded_coroutine

            @functools.wraps(func)
            def guarded(*args: Any, **kwargs: Any) -> Any:
                return self.call(func, *args, **kwargs)

            return guarded

        return decorate(*call_args) if call_args else decorate

    def _begin(
        self, func: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Permit:
        try:
            permit = self._inner._permit()
            permit._enter(True)
        except Rejected as rejected:
            self._inner._tell(rejected)
            raise self._rejection(rejected) from None
        if self._listeners:
            self._tell_call(func, args, kwargs)
        return permit

    def _rejection(self, rejected: Rejected) -> CircuitBreakerError:
        self._notice()
        words = (
            "Trial call under way, circuit breaker still open" if rejected.state == "half_open"
            else "Timeout not elapsed yet, circuit breaker still open")
        error = CircuitBreakerError(words)
        error.retry_after = rejected.retry_after
        return error

    def _tell_call(
        self, func: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> None:
        self._notice()
        for listener in self.listeners:
            listener.before_call(self, func, *args, **kwargs)

    def _outcome(self, error: BaseException) -> Any:
        """Judge an exception: as pybreaker does, an excluded one is a success."""
        if isinstance(error, cancellation_types()):
            return "ignored"
        return "failure" if self.is_system_error(error) else "success"

    def _succeed(self, permit: Permit) -> None:
        permit._leave(SUCCESS, None, 0, 0, True)
        if self._listeners:
            self._tell_success()

    def _fail(self, permit: Permit, error: BaseException) -> None:
        was_probe = permit.kind == "probe"
        outcome = self._outcome(error)
        words = f"{type(error).__name__}: {error}" if outcome == "failure" else None
        verdict = permit.report(outcome, words)
        self._tell_failure(error, outcome, verdict, was_probe)

    async def _fail_async(self, permit: Permit, error: BaseException) -> None:
        was_probe = permit.kind == "probe"
        outcome = self._outcome(error)
        words = f"{type(error).__name__}: {error}" if outcome == "failure" else None
        verdict = await permit.report_async(outcome, words)
        self._tell_failure(error, outcome, verdict, was_probe)

    def _tell_success(self) -> None:
        if self._listeners:
            self._notice()
            for listener in self.listeners:
                listener.success(self)

    def _tell_failure(
        self, error: BaseException, outcome: str, verdict: str, was_probe: bool
    ) -> None:
        """Tell listeners of what a call has raised; raise if it has opened the circuit."""
        if outcome == "success":
            self._tell_success()
        if outcome != "failure":
            return
        for listener in self.listeners:
            listener.failure(self, error)
        self._notice()
        has_opened = verdict == "counted" and self._is_open()
        if has_opened and self._throw_new_error_on_trip:
            words = (
                "Trial call failed, circuit breaker opened" if was_probe
                else "Failures threshold reached, circuit breaker opened")
            raise CircuitBreakerError(words).with_traceback(error.__traceback__) from error

    def _is_open(self) -> bool:
        try:
            return bool(self._inner.state == "open")
        except StoreError:  # the state is unknown
            return False

    def _generate(
        self, permit: Permit, generator: Generator[Any, Any, Any]
    ) -> Generator[Any, Any, Any]:
        try:
            result = yield from generator
        except BaseException as error:
            self._fail(permit, error)
            raise
        self._succeed(permit)
        return result

    async def _await(self, permit: Permit, awaitable: Any) -> Any:
        try:
            result = await awaitable
        except GeneratorExit:
            permit.report("ignored")
            raise
        except BaseException as error:
            await self._fail_async(permit, error)
            raise
        await permit.report_async()
        self._tell_success()
        return result


_private: SharedStore | None = None


def _private_store() -> SharedStore:
    """Return a store that only this process and its children use."""
    global _private
    if _private is None:
        import shutil
        import tempfile

        directory = tempfile.mkdtemp(prefix="shared-breaker-")
        _private = store = SharedStore(os.path.join(directory, "breakers.db"))
        owner = os.getpid()

        def remove() -> None:
            if os.getpid() == owner:
                store.close()
                shutil.rmtree(directory, ignore_errors=True)

        atexit.register(remove)
    return _private
