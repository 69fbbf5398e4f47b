"""Policies as keywords, in the words of ``cbctl policy --set``."""

from __future__ import annotations

import math

from ._errors import InvalidPolicy
from ._text import exact

TYPE_CHECKING = False
if TYPE_CHECKING:
    from datetime import timedelta
    from typing import TypedDict

    # A number of seconds, or a timedelta.
    Seconds = float | timedelta

    class PolicyWords(TypedDict, total=False):
        """Every word of a policy as a keyword; ``None`` unsets an optional one."""

        max_failures: int | None
        failures: int | None
        within: Seconds | None
        failure_rate: float | None
        window: Seconds | None
        last: int | None
        min_calls: int | None
        slow_rate: float | None
        slow_after: Seconds | None
        reporters: int
        lumping: Seconds | None
        open_multiplier: float
        open_max: Seconds | None
        jitter: float
        probes: int
        successes_to_close: int
        probe_timeout: Seconds
        probe_calls: int | None
        probe_failure_rate: float | None
        fleet_quorum: int | float | None
        fleet_spread: Seconds | None


_COUNTS = {
    "max_failures", "failures", "last", "min_calls", "reporters", "probes", "successes_to_close",
    "probe_calls",
}
_TIMES = {
    "within", "window", "slow_after", "lumping", "open_for", "open_max", "probe_timeout",
    "fleet_spread",
}
_RATES = {"failure_rate", "slow_rate", "jitter", "probe_failure_rate"}
_FACTORS = {"open_multiplier"}
# A whole number is a count, and a fraction is a rate.
_COUNTS_OR_RATES = {"fleet_quorum"}
_NUMBERS = (int, float)
_KEYWORDS = _COUNTS | _TIMES | _RATES | _FACTORS | _COUNTS_OR_RATES


def nanoseconds(time: Seconds) -> int:
    """Return a time in whole nanoseconds, as the library takes it: at most 365 days."""
    seconds = _seconds(time)
    if seconds < 0:
        raise ValueError(f"{time!r} is less than no time: give 0 or more seconds")
    return _whole(seconds)


def elapsed_nanoseconds(time: Seconds | None) -> int:
    """Return how long a call took, or 0 if nobody knows."""
    # At least a nanosecond: a clock may have been set back meanwhile.
    return 0 if time is None else max(1, _whole(_seconds(time)))


def _whole(seconds: float) -> int:
    return min(round(seconds * 1e9), 365 * 86_400 * 10**9)


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
    """Return the words of a policy, of which keywords win; None if there are none."""
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
    if key not in _KEYWORDS:
        raise TypeError(
            f"there is no policy word {key!r}: use one of {', '.join(sorted(_KEYWORDS))}")
    if value is None:
        return "none"
    if isinstance(value, str):
        if value.split() != [value]:  # it would declare other words, too
            raise InvalidPolicy(f"{key} cannot be {value!r}: give one value without spaces")
        return exact(value, key, InvalidPolicy)
    if isinstance(value, bool):
        raise TypeError(f"{key} cannot be {value!r}")
    if key in _TIMES and (isinstance(value, _NUMBERS) or hasattr(value, "total_seconds")):
        return f"{nanoseconds(value)}ns"  # type: ignore[arg-type]
    if not isinstance(value, _NUMBERS):
        raise TypeError(f"{key} cannot be {value!r}")
    if key in _COUNTS and not isinstance(value, int):
        raise TypeError(f"{key} has to be a whole number, and not {value!r}")
    if key in _RATES or (key in _COUNTS_OR_RATES and isinstance(value, float)):
        return f"{_plain(value * 100)}%"
    return str(value) if key in _COUNTS else _plain(value)


def _plain(number: float) -> str:
    """Return a number without an exponent, as the words of a policy take it."""
    return f"{number:.6f}".rstrip("0").rstrip(".")
