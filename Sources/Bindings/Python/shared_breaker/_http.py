"""HTTP answers that ask to be left alone, and the time that their headers name."""

from __future__ import annotations

from ._judge import status_of
from ._signals import is_of_signal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

_DAY = 86_400
_LONGEST = 365 * _DAY
_UNITS = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "ms": 1e-3, "s": 1, "m": 60, "h": 3_600, "d": _DAY}
_NUMBER = r"[0-9]{1,15}(?:\.[0-9]+)?"
_TIME = r"(?P<hour>[0-9]{2}):(?P<minute>[0-9]{2}):(?P<second>[0-9]{2})"
# The three forms of RFC 9110, section 5.6.7.
_DATES = (
    rf"[^ ]*, (?P<day>[0-9]{{1,2}}) (?P<month>[A-Z][a-z]{{2}}) (?P<year>[0-9]{{4}}) {_TIME} GMT",
    rf"[^ ]*, (?P<day>[0-9]{{1,2}})-(?P<month>[A-Z][a-z]{{2}})-(?P<year>[0-9]{{2}}|[0-9]{{4}}) {_TIME} GMT",
    rf"[^ ]+ (?P<month>[A-Z][a-z]{{2}}) (?P<day>[0-9]{{1,2}}) {_TIME} (?P<year>[0-9]{{4}})",
)
_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
_INTERNET_DATE = (
    rf"(?P<year>[0-9]{{4}})-(?P<month>[0-9]{{2}})-(?P<day>[0-9]{{2}})[Tt]{_TIME}(?P<fraction>\.[0-9]+)?"
    r"(?:[Zz]|(?P<sign>[+-])(?P<hours>[01][0-9]|2[0-3]):(?P<minutes>[0-5][0-9]))")
_PREFIXES = ("x-ratelimit-", "x-rate-limit-", "anthropic-ratelimit-", "ratelimit-")


def retry_after(value: object) -> float | None:
    """Return the seconds after which an HTTP answer asks to try again: ``retry-after-ms``, else ``Retry-After``.

    If it has neither, ``X-Rate-Limit-Retry-After-Seconds`` counts. Pass it as ``open_for=``. It understands the answers
    of requests, httpx, aiohttp, urllib and others that have ``headers``, and exceptions that have such a ``response``.
    None means that no time is named.
    """
    for source in _sources(value):
        times = _Times(source)
        if (wait := times.asked()) is not None:
            return wait
    return None


def too_many_requests(value: object) -> float | None:
    """Return the seconds for which an HTTP answer holds calls: 0 if it names no time, None if it holds none.

    Pass it as ``hold=``. An answer with the status 429 holds, and so does 403 if it names a time. The time is the
    first that can be read of ``retry-after-ms``, ``Retry-After``, ``X-Rate-Limit-Retry-After-Seconds``, and the longest reset of which nothing
    remains (``x-ratelimit-*``, ``x-rate-limit-*``, ``anthropic-ratelimit-*``, ``ratelimit-*``, ``RateLimit``). It understands
    what ``retry_after`` understands.
    """
    sources = list(_sources(value))
    # An exception may have the status, and its response the headers.
    status = next((status for status in map(status_of, sources) if status is not None), None)
    if status not in (403, 429):
        return None
    times = [_Times(source) for source in sources]
    waits = [time.asked() for time in times] + [time.reset() for time in times]
    wait = next((wait for wait in waits if wait is not None), None)
    return wait or (0.0 if status == 429 else None)


def _sources(value: object) -> Iterator[object]:
    """Return an answer, also of an exception that has one."""
    yield value
    try:
        response = getattr(value, "response", None)
    except Exception as raised:  # an attribute that fails
        if is_of_signal(raised):
            raise
        return
    if response is not None:
        yield response


class _Times:
    """The times that the headers of an answer name."""

    __slots__ = ("_now", "_values")

    def __init__(self, answer: object) -> None:
        import time

        self._values: dict[str, str] = {}
        try:
            items = getattr(getattr(answer, "headers", None), "items", None)
            for name, value in items() if callable(items) else ():
                if isinstance(name, str) and isinstance(value, str):
                    name = name.lower()
                    # Several headers with one name are one, as RFC 9110 has it.
                    self._values[name] = f"{self._values[name]}, {value}" if name in self._values else value
        except Exception as raised:  # what looks like headers, and is not: the status still counts
            if is_of_signal(raised):
                raise
        self._now = time.time()
        date = _http_date(_words(self._values.get("date", "")), self._now)
        if date is not None:
            self._now = date

    def asked(self) -> float | None:
        """Return the time until which the server itself asks to be left alone."""
        milliseconds = _number(self._values.get("retry-after-ms", ""))
        if milliseconds is not None and milliseconds <= _LONGEST * 1_000:
            return milliseconds / 1_000
        wait = self._wait(self._values.get("retry-after", ""))
        return self._wait(self._values.get("x-rate-limit-retry-after-seconds", "")) if wait is None else wait

    def reset(self) -> float | None:
        """Return the longest time after which something is left again of which nothing is left."""
        waits = list(self._fields())
        for name, value in self._values.items():
            prefix = next((prefix for prefix in _PREFIXES if name.startswith(prefix)), None)
            parts = name[len(prefix):].split("-") if prefix else []
            if prefix and "reset" in parts:
                parts[parts.index("reset")] = "remaining"
                if _number(self._values.get(prefix + "-".join(parts), "")) == 0:
                    waits.append(self._wait(value))
        return max((wait for wait in waits if wait is not None), default=None)

    def _fields(self) -> Iterator[float | None]:
        """Return each ``t`` of a header such as ``RateLimit: "default";r=0;t=30``, where ``r`` is 0."""
        import re

        # A name between quotes may hold any sign.
        for field in re.sub(r'"[^"]*("|$)', "", self._values.get("ratelimit", "")).split(","):
            pairs = [parameter.strip(" \t").partition("=") for parameter in field.split(";")]
            of = {name: value for name, sign, value in reversed(pairs) if sign}
            if _number(of.get("r", "")) == 0:
                yield self._wait(of.get("t", ""))

    def _wait(self, text: str) -> float | None:
        """Read seconds, a duration with units, seconds or milliseconds since 1970, or a date."""
        text = _words(text)
        wait = None
        number = _number(text)
        if number is None:
            date = None
            if (wait := duration(text)) is None:
                date = _http_date(text, self._now)
                if date is None:
                    date = _internet_date(text)
        else:
            whole = int(number)
            date = None
            if whole <= _LONGEST:
                wait = number
            elif 10**9 <= whole <= 10**11:
                date = number
            elif 10**12 <= whole <= 10**14:
                date = number / 1_000
        if date is not None:
            wait = max(0.0, date - self._now)
        return None if wait is None or wait > _LONGEST else wait


def _words(text: str) -> str:
    """Return a text with single blanks between its words."""
    return " ".join(word for word in text.replace("\t", " ").split(" ") if word)


def _number(text: str) -> float | None:
    import re

    text = text.strip(" \t")
    return float(text) if re.fullmatch(_NUMBER, text) else None


def duration(text: str) -> float | None:
    """Read a duration such as ``1h``, ``6m0s`` or ``250ms``."""
    import re

    unit = "|".join(sorted(_UNITS, key=len, reverse=True))
    if not re.fullmatch(rf"(?:{_NUMBER}(?:{unit}))+", text):
        return None
    return sum(float(number) * _UNITS[unit] for number, unit in re.findall(rf"({_NUMBER})({unit})", text))


def _http_date(text: str, now: float) -> float | None:
    """Read a date in one of the forms of RFC 9110."""
    import re
    import time

    found = next(filter(None, (re.fullmatch(form, text) for form in _DATES)), None)
    if found is None or found["month"] not in _MONTHS:
        return None
    year = int(found["year"])
    if len(found["year"]) == 2:
        # Two digits that would be more than 50 years ahead are of the century before.
        current = time.gmtime(now).tm_year
        year += current - current % 100
        year -= 100 if year > current + 50 else 0
    # A leap second is the next minute's first one.
    leap = found["second"] == "60"
    return _since_1970(
        year, _MONTHS.index(found["month"]) + 1, found["day"], found["hour"], found["minute"],
        59 if leap else found["second"], float(leap))


def _internet_date(text: str) -> float | None:
    """Read a date in the form of RFC 3339."""
    import re

    found = re.fullmatch(_INTERNET_DATE, text)
    if found is None:
        return None
    offset = 0
    if found["sign"]:
        offset = (int(found["hours"]) * 60 + int(found["minutes"])) * (60 if found["sign"] == "+" else -60)
    return _since_1970(
        *found.group("year", "month", "day", "hour", "minute", "second"), float(found["fraction"] or 0) - offset)


def _since_1970(*parts: Any) -> float | None:
    """Return the seconds since 1970 of a year, month, day, hour, minute and second, and what is to be added."""
    from calendar import timegm
    from datetime import datetime

    year, month, day, hour, minute, second = map(int, parts[:6])
    try:
        return timegm(datetime(year, month, day, hour, minute, second).timetuple()) + float(parts[6])
    except ValueError:  # a date that does not exist
        return None
