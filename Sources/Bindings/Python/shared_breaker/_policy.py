"""Policies as keywords, which become the words of ``cbctl policy --set``."""

from __future__ import annotations

import math

from . import _extension
from ._errors import InvalidPolicy
from ._text import exact

TYPE_CHECKING = False
if TYPE_CHECKING:
    from datetime import timedelta
    from typing import Any, TypedDict

    # A number of seconds, or a timedelta.
    Seconds = float | timedelta
    Count = int
    Rate = float
    Factor = float
    # A whole number is a count, and a fraction is a rate.
    CountOrRate = int | float
    # A number of calls in a time, such as "500/1m".
    CallRate = str
    Word = str
    # True is written yes, and False no.
    Flag = bool
else:

    class TypedDict:
        """Stands for the one of ``typing``, which takes long to import."""

        def __init_subclass__(cls, total=True):
            """Accept what the other one accepts."""


class PolicyWords(TypedDict, total=False):
    """Every word of a policy but ``open_for`` as a keyword; ``None`` unsets an optional one."""

    max_failures: Count | None
    failures: Count | None
    within: Seconds | None
    failure_rate: Rate | None
    window: Seconds | None
    last: Count | None
    min_calls: Count | None
    slow_rate: Rate | None
    slow_after: Seconds | None
    reporters: Count
    lumping: Seconds | None
    open_multiplier: Factor
    open_max: Seconds | None
    jitter: Rate
    hold_for: Seconds
    hold_max: Seconds
    ramp_up: Seconds | None
    probes: Count
    successes_to_close: Count
    probe_timeout: Seconds
    probe_calls: Count | None
    probe_failure_rate: Rate | None
    fleet_quorum: CountOrRate | None
    fleet_spread: Seconds | None
    fleet_hold: Flag
    max_concurrent: Count | None
    reserve: Count | None
    queue: Count | None
    queue_timeout: Seconds | None
    rate: CallRate | None
    retry_budget: Rate | None
    lost_calls: Word


# The kind of value that each keyword takes.
_KINDS = {
    "open_for": "Seconds",
    **{word: str(kind).partition(" ")[0] for word, kind in PolicyWords.__annotations__.items()},
}
_EXPECTED = {
    "Count": "a whole number", "Seconds": "a number of seconds or a timedelta", "Word": "a word",
    "Flag": "True or False", "CallRate": "text such as '500/1m'",
}
_NUMBERS = (int, float)


def nanoseconds(time: Seconds) -> int:
    """Return a time in whole nanoseconds, as the library takes it: at most 365 days."""
    seconds = _seconds(time)
    if seconds < 0:
        raise ValueError(f"{time!r} is negative: give 0 or more seconds")
    return _whole(seconds)


def remaining_nanoseconds(time: Seconds) -> int:
    """Return the time until an instant, which may have passed meanwhile."""
    return _whole(max(0.0, _seconds(time)))


def elapsed_nanoseconds(time: Seconds | None) -> int:
    """Return how long a call took, or 0 if that is unknown."""
    # At least a nanosecond, because the clock may have been set back meanwhile.
    return 0 if time is None else max(1, _whole(_seconds(time)))


def _whole(seconds: float) -> int:
    return min(round(seconds * 1e9), _extension.LONGEST)


def _seconds(time: Seconds) -> float:
    if isinstance(time, _NUMBERS):
        seconds = float(time)
    elif hasattr(time, "total_seconds"):
        seconds = time.total_seconds()
    else:
        raise TypeError(f"{time!r} is not a time: give seconds or a timedelta")
    if not math.isfinite(seconds):
        raise ValueError(f"{time!r} is not a time: give seconds or a timedelta")
    return seconds


def policy_words(policy: str | None, keywords: dict[str, object]) -> str | None:
    """Return the words of a policy, in which keywords replace words; None if there are none."""
    if policy is None and not keywords:
        return None
    if policy is not None:
        if not isinstance(policy, str):
            raise TypeError(f"a policy is words such as 'max-failures=3', and not {policy!r}")
        exact(policy, "a policy", InvalidPolicy)
    named = {key.replace("_", "-"): _text(key, value) for key, value in keywords.items()}
    words = [word for word in (policy or "").split() if word.partition("=")[0] not in named]
    return " ".join(words + [f"{key}={text}" for key, text in named.items()])


def _text(key: str, value: object) -> str:
    kind = _KINDS.get(key)
    if kind is None:
        raise TypeError(f"there is no policy keyword {key!r}: use one of {', '.join(sorted(_KINDS))}")
    if value is None:
        return "none"
    if kind == "Flag" and isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, str) and kind in ("Seconds", "Word", "Flag", "CallRate"):
        if value.split() != [value]:  # it would declare other words, too
            raise InvalidPolicy(f"{key} cannot be {value!r}: give one value without spaces")
        return exact(value, key, InvalidPolicy)
    is_number = isinstance(value, _NUMBERS) and not isinstance(value, bool)
    if kind == "Seconds" and (is_number or hasattr(value, "total_seconds")):
        return f"{nanoseconds(value)}ns"  # type: ignore[arg-type]
    number: Any = value
    is_text = kind in ("Seconds", "Word", "Flag", "CallRate")
    if not is_number or is_text or (kind == "Count" and not isinstance(value, int)):
        raise TypeError(f"{key} has to be {_EXPECTED.get(kind, 'a number')}, and not {value!r}")
    if kind == "Rate" or (kind == "CountOrRate" and isinstance(value, float)):
        return f"{_plain(number * 100)}%"
    return str(value) if kind == "Count" else _plain(number)


def _plain(number: float) -> str:
    """Return a number without an exponent, as the words of a policy take it."""
    return f"{number:.6f}".rstrip("0").rstrip(".")
