"""The errors of the package."""

from __future__ import annotations

import math

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import TypeVar

    R = TypeVar("R", bound="Rejected")

# The codes of the C library.
_CODES = {
    -2: "closed",
    -100: "missing",
    -101: "not_a_directory",
    -102: "is_directory",
    -103: "symbolic_link",
    -104: "permission",
    -105: "read_only",
    -106: "disk_full",
    -107: "corrupt",
    -108: "not_a_store",
    -109: "newer_version",
    -110: "network_file_system",
    -111: "busy",
    -112: "io",
    -113: "too_many_breakers",
}


# A unit of time, its name, and those of the part that is left.
_UNITS = ((86_400, "d", 3_600, "h"), (3_600, "h", 60, "m"), (60, "m", 1, "s"))


class BreakerError(Exception):
    """The base class of all errors of this package."""


class Rejected(BreakerError):
    """A breaker rejected the call, and the work was not run.

    It says when to try again if that is known, so a web service can answer 503 with a ``Retry-After`` header::

        except Rejected as rejected:
            return Response(status=503, headers={"Retry-After": rejected.retry_after_header})
    """

    # It has nothing but its arguments, so raising it is cheap and pickling it needs no method.
    if TYPE_CHECKING:

        def __init__(
            self,
            name: str,
            state: str,
            mode: str,
            retry_after: float | None,
            reason: str | None,
            cause: str = "open",
            /,
        ) -> None: ...

    @property
    def name(self) -> str:
        """The name of the breaker."""
        return str(self.args[0])

    @property
    def state(self) -> str:
        """The state in which the breaker rejected the call: ``open`` or ``half_open``, or, if an
        operator holds it open or the breaker is busy, the state below."""
        return str(self.args[1])

    @property
    def mode(self) -> str:
        """``automatic``, or ``forced_open`` if an operator holds the breaker open."""
        return str(self.args[2])

    @property
    def retry_after(self) -> float | None:
        """The seconds after which another call may be permitted; None if that is unknown."""
        return self.args[3]  # type: ignore[no-any-return]

    @property
    def retry_after_header(self) -> str:
        """The value for a ``Retry-After`` header: whole seconds, and at least 1.

        It is 60 while an operator holds the breaker open without an end.
        """
        if self.retry_after is None and self.mode == "forced_open":
            return "60"
        return str(max(1, math.ceil(self.retry_after or 1)))

    @property
    def reason(self) -> str | None:
        """Why an operator tripped the breaker or set its mode, or that the store cannot be used; None if there is none."""
        return self.args[4]  # type: ignore[no-any-return]

    @property
    def cause(self) -> str:
        """``open``; ``held`` if the resource has asked to be left alone; ``ramping`` if it has just come back, and few calls
        go at once; ``busy`` if as many calls are under way as ``max_concurrent`` permits; ``rate`` if as many have begun
        as ``rate`` permits; or ``retry_budget`` if the call is a retry, and as many were sent as ``retry_budget`` permits."""
        return str(self.args[5]) if len(self.args) > 5 else "open"

    def into(self, rejected: type[R], busy: type[R]) -> R:
        """Return this rejection as an error of your own, to be raised in its place.

        Give a class for rejections of every cause, and one for ``Busy``, each with the arguments of this error::

            class ShopRejected(Rejected, ShopError): ...
            class ShopBusy(ShopRejected, Busy): ...

            except Rejected as rejected:
                raise rejected.into(ShopRejected, ShopBusy) from None

        If ``ShopError`` takes arguments of its own, give ``ShopRejected`` an ``__init__`` that sets only ``self.args``.
        """
        return (busy if isinstance(self, Busy) else rejected)(*self.args)

    def __str__(self) -> str:
        """Say what happened and when to try again, in one line."""
        wait = self.retry_after
        if self.cause == "busy":
            again = "try again later" if wait is None else f"try again in {_time(wait)}"
            what = f"as many calls are under way as its max-concurrent permits: {again}"
        elif self.cause == "rate":
            again = "try again later" if wait is None else f"try again in {_time(wait)}"
            what = f"as many calls have begun as its rate permits: {again}"
        elif self.cause == "retry_budget":
            again = "try again later" if wait is None else f"try again in {_time(wait)}"
            what = f"as many calls were sent again as its retry-budget permits: {again}"
        elif self.cause == "ramping":
            again = "try again later" if wait is None else f"try again in {_time(wait)} at the latest"
            what = f"it lets few calls through at a time after a pause: {again}"
        elif self.cause == "held":
            why = f" ({visible(self.reason)})" if self.reason else ""
            again = "try again later" if wait is None else f"try again in {_time(wait)}"
            what = f"the resource has asked to be left alone{why}: {again}"
        elif self.mode == "forced_open":
            time = "until further notice" if wait is None else f"for {_time(wait)}"
            why = f": {visible(self.reason)}" if self.reason else ""
            what = f"an operator holds it open {time}{why}"
        else:
            again = "try again later" if wait is None else f"try again in {_time(wait)}"
            if self.reason:
                what = f"{visible(self.reason)}: {again}"
            elif self.state == "half_open":
                what = f"a probe is under way: {again} at the latest"
            else:
                what = f"it is {self.state}: {again}"
        return f"{visible(self.name)} is rejecting calls: {what}"


class Busy(Rejected):
    """The breaker had no room for the call: as many calls are under way as ``max_concurrent`` permits.

    It is a ``Rejected`` whose ``cause`` is ``busy``. If there is a queue, the call has waited as long as it may, or the
    queue was full. The resource has not failed, so you may treat it in another way::

        except Busy:
            return answer_from_cache(order)
        except Rejected as rejected:
            retry_later(order, after=rejected.retry_after)
    """


class StoreError(BreakerError):
    """The store could not be used; the text says why and what to do."""

    if TYPE_CHECKING:

        def __init__(self, message: str, number: int, /) -> None: ...

    @property
    def code(self) -> str:
        """The kind of error, as a word for programs: ``busy``, ``disk_full``, ``permission`` and so on."""
        return _CODES.get(self.args[1], "store")

    def __str__(self) -> str:
        """Say what is wrong and what to do, in one line."""
        return str(self.args[0])


class InvalidPolicy(BreakerError, ValueError):
    """The policy contradicts itself, or could never open or never close the breaker."""


class InvalidName(BreakerError, ValueError):
    """The text cannot be the name of a breaker."""


def _time(seconds: float) -> str:
    """Return a time in at most two units, as ``cbctl`` does: rounded up, so that no caller comes back too early."""
    seconds = round(max(seconds, 0), 9)
    if seconds <= 0.999:
        return f"{math.ceil(round(seconds * 1_000, 6))}ms" if seconds else "0s"
    whole = math.ceil(seconds)
    step = 1 if whole < 3_600 else 60 if whole < 86_400 else 3_600
    whole = -(-whole // step) * step
    if whole < 60:
        return f"{whole}s"
    size, name, part, rest = next(unit for unit in _UNITS if whole >= unit[0])
    left = whole % size // part
    return f"{whole // size}{name} {left}{rest}" if left else f"{whole // size}{name}"


def visible(text: str | None) -> str:
    """Return text from outside with its unprintable characters escaped."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text or "")
