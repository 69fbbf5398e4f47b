"""Judging how a call went, by what it raised or returned."""

from __future__ import annotations

import sys

from ._policy import nanoseconds, remaining_nanoseconds
from ._signals import is_of_signal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Any, Literal

    from ._policy import Seconds

    Rule = type[BaseException] | Callable[[BaseException], object]
    Rules = Rule | Iterable[Rule]
    ResultRule = type[BaseException] | Callable[[object], object]
    ResultRules = ResultRule | Iterable[ResultRule]
    OpenFor = Callable[[object], Seconds | None]
    HoldJudge = Callable[[object], Seconds | None]
    Ending = tuple[int, bytes | None, int]

    Outcome = Literal["success", "failure", "permanent_failure", "ignored", "hold"]
    Verdict = Literal["counted", "outdated", "refused"]

SUCCESS, FAILURE, PERMANENT_FAILURE, IGNORED, HOLD = range(5)
# The library cuts the words of a failure, too.
LONGEST_WORDS = 2_000
OUTCOMES = {
    "success": SUCCESS,
    "failure": FAILURE,
    "permanent_failure": PERMANENT_FAILURE,
    "ignored": IGNORED,
    "hold": HOLD,
}

_IGNORED: Ending = (IGNORED, None, 0)


def outcome_number(outcome: str | None, error: str | None) -> int:
    """Return the number of an outcome; without one, a call has succeeded unless there is an error."""
    if outcome is None:
        return SUCCESS if error is None else FAILURE
    if not isinstance(outcome, str) or outcome not in OUTCOMES:
        raise ValueError(f"there is no outcome {outcome!r}: use one of {', '.join(OUTCOMES)}")
    return OUTCOMES[outcome]


def named_time(number: int, open_for: Seconds | None, hold_for: Seconds | None) -> int | None:
    """Return for how long the resource has asked to be left alone, in nanoseconds; None if it has not said."""
    if hold_for is not None and number != HOLD:
        raise ValueError("hold_for is the time of the outcome 'hold': report that, or use open_for for a failure")
    if open_for is not None and number == HOLD:
        raise ValueError("open_for is the time of a failure: use hold_for for the outcome 'hold'")
    if number == HOLD:
        return None if hold_for is None else remaining_nanoseconds(hold_for)
    return None if open_for is None else nanoseconds(open_for)


class Judge:
    """Decides what each exception and each result means for the resource."""

    __slots__ = ("_counts_lost_calls", "_failure", "_hold", "_ignore", "_open_for", "_permanent")

    def __init__(
        self,
        ignore: Rules | None = None,
        permanent: Rules | None = None,
        failure: ResultRules | None = None,
        open_for: OpenFor | None = None,
        counts_lost_calls: Callable[[], bool] | None = None,
        hold: HoldJudge | None = None,
    ) -> None:
        """Take the rules; each is an exception type, a predicate, or an iterable of them.

        ``counts_lost_calls`` says whether a call whose process is ended is a failure. ``hold`` returns the seconds
        for which an exception or a result asks to leave the resource alone.
        """
        if hold is not None and not callable(hold):
            raise TypeError(f"hold is a function that returns seconds or None, not {hold!r}: hold_for is a time")
        self._ignore = _Matcher(ignore)
        self._permanent = _Matcher(permanent)
        self._failure = _Matcher(failure)
        self._open_for = open_for
        self._counts_lost_calls = counts_lost_calls
        self._hold = hold

    @property
    def judges_results(self) -> bool:
        """Whether results have to be judged."""
        return self._hold is not None or self.judges_failures

    @property
    def judges_failures(self) -> bool:
        """Whether a rule can tell a result that is a failure."""
        return bool(self._failure.predicates)

    def error(self, error: BaseException) -> Ending:
        """Judge an exception."""
        is_cancellation = isinstance(error, cancellation_types())
        if self._ignore(error, is_cancellation):
            return _IGNORED
        if not is_cancellation and (held := self._held(error)):
            return held
        if why := self._permanent(error, is_cancellation):
            return PERMANENT_FAILURE, _words(why) or describe(error), 0
        is_failure = self._failure(error, is_cancellation)
        if is_failure is None:
            is_failure = isinstance(error, Exception)
        if not is_failure and self._is_lost(error):
            return FAILURE, describe(error) + b", raised by the handler of a signal", 0
        if not is_failure:
            return _IGNORED
        return FAILURE, _words(is_failure) or describe(error), self._time(error)

    def result(self, result: object) -> Ending | None:
        """Judge a result; return None for a success."""
        if held := self._held(result):
            return held
        if why := self._failure(result):
            return FAILURE, _words(why) or describe_result(result), self._time(result)
        return None

    def _is_lost(self, error: BaseException) -> bool:
        """Return whether the handler of a signal ends the process, and the call counts as lost with it.

        A supervisor sends such a signal to a worker that takes too long, before it kills it.
        """
        return (
            isinstance(error, SystemExit)
            and error.code not in (None, 0)
            and self._counts_lost_calls is not None
            and is_of_signal(error)
            and self._counts_lost_calls())

    def _held(self, value: object) -> Ending | None:
        """Return the hold that an exception or a result asks for."""
        time = _asked(self._hold, value)
        if time is None:
            return None
        return HOLD, describe(value) if isinstance(value, BaseException) else describe_result(value), time

    def _time(self, value: object) -> int:
        return _asked(self._open_for, value) or 0


def _asked(judge: OpenFor | None, value: object) -> int | None:
    """Return the nanoseconds that a function has read from an exception or a result; None if it names no time."""
    if judge is None:
        return None
    try:
        time = judge(value)
        if isinstance(time, bool):  # of a predicate, which names no time
            return 0 if time else None
        return None if time is None else remaining_nanoseconds(time)
    except Exception as raised:  # a function that fails is skipped
        if is_of_signal(raised):
            raise
        return None


def judged(
    judge: Callable[[Any], Ending | None], value: object, otherwise: Ending
) -> tuple[Ending | None, BaseException | None]:
    """Return what a judge says of an exception or a result, and what was raised meanwhile.

    A judge passes on only exceptions from outside, as of the handler of a signal. It is asked once more after one,
    because the outcome counts all the same; the caller raises the exception when it has reported the outcome.
    """
    raised = None
    for _ in range(2):
        try:
            return judge(value), raised
        except BaseException as error:
            raised = error
    return otherwise, raised


class _Matcher:
    """Exception types and predicates, one of which has to match.

    A cancellation matches only a rule for its own type, so neither ``BaseException`` nor a predicate makes a failure
    of the end of a worker.
    """

    __slots__ = ("_cancellations", "predicates", "types")

    def __init__(self, rules: ResultRules | Rules | None) -> None:
        given: Iterable[Any]
        if rules is None:
            given = ()
        elif callable(rules) or isinstance(rules, str) or not hasattr(rules, "__iter__"):
            given = (rules,)
        else:
            given = rules
        types: list[type[BaseException]] = []
        predicates: list[Callable[[Any], object]] = []
        for rule in given:
            if isinstance(rule, type) and issubclass(rule, BaseException):
                types.append(rule)
            elif callable(rule) and not isinstance(rule, type):
                predicates.append(rule)
            else:
                raise TypeError(f"{rule!r} is neither an exception type nor a predicate")
        self.types = tuple(types)
        self._cancellations = tuple(kind for kind in types if issubclass(kind, cancellation_types()))
        self.predicates = tuple(predicates)

    def __call__(self, value: object, is_cancellation: bool = False) -> object:
        """Return what a rule that matches has said, or False; None if no rule could tell."""
        if is_cancellation:
            return isinstance(value, self._cancellations)
        if isinstance(value, self.types):
            return True
        answer = False if self.types and isinstance(value, BaseException) else None
        for predicate in self.predicates:
            try:
                said = predicate(value)
                if said:
                    return said
                answer = False
            except Exception as raised:  # a predicate that fails is skipped
                if is_of_signal(raised):
                    raise
        return answer


_CANCELLATIONS = (
    ("asyncio", "CancelledError"), ("concurrent.futures", "CancelledError"), ("trio", "Cancelled"))


def cancellation_types() -> tuple[type[BaseException], ...]:
    """Return the types that mean that a call was cancelled, which is no failure unless a rule names them."""
    types: list[type[BaseException]] = [GeneratorExit, KeyboardInterrupt, SystemExit]
    # Without importing modules that the program does not use.
    for module, name in _CANCELLATIONS:
        cancelled = getattr(sys.modules.get(module), name, None)
        if cancelled is not None:
            types.append(cancelled)
    return tuple(types)


def describe(error: BaseException) -> bytes:
    """Return the words for an exception in the history; the library cuts them."""
    try:
        text = str(error)
    except Exception as raised:
        if is_of_signal(raised):
            raise
        text = ""
    name = type(error).__name__
    return (f"{name}: {text}" if text else name)[:LONGEST_WORDS].encode(errors="replace")


def _words(said: object) -> bytes | None:
    """Return the words that a predicate has given as its reason; None if it only said that it matches."""
    return said[:LONGEST_WORDS].encode(errors="replace") if isinstance(said, str) else None


def describe_result(result: object) -> bytes:
    """Return the words for a result that is a failure: of an answer of HTTP, its status and its host."""
    text = None
    try:
        status = status_of(result)
        if status is not None:
            host = _host_of(result)
            text = f"HTTP {status} from {host}" if host else f"HTTP {status}"
    except Exception as raised:  # an answer that cannot tell, such as one without its request
        if is_of_signal(raised):
            raise
    return (text or f"a result of type {type(result).__name__}")[:LONGEST_WORDS].encode(errors="replace")


def status_of(result: object) -> int | None:
    """Return the status of an answer of HTTP."""
    for name in ("status_code", "status", "http_status"):
        status = getattr(result, name, None)
        if isinstance(status, int) and not isinstance(status, bool) and 100 <= status <= 999:
            return int(status)
    return None


def _host_of(result: object) -> str | None:
    """Return the host of an answer, without the path, which may hold secrets."""
    from urllib.parse import urlsplit

    try:
        return urlsplit(str(getattr(result, "url", ""))).hostname
    except Exception as raised:
        if is_of_signal(raised):
            raise
        return None
