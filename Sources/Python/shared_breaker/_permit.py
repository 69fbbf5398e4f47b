"""Permits: the right to make one call, for calls in two steps."""

from __future__ import annotations

from . import _extension
from ._judge import IGNORED, OUTCOMES, SUCCESS
from ._policy import elapsed_nanoseconds, nanoseconds
from ._text import for_people

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Literal

    from ._breaker import Breaker
    from ._policy import Seconds

    Outcome = Literal["success", "failure", "permanent_failure", "ignored"]
    Verdict = Literal["counted", "outdated", "refused"]


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
            from ._aio import in_thread

            verdict = await in_thread(lambda: self._leave(*ending, True))
        elif ending[0] in (SUCCESS, IGNORED):
            return verdict  # type: ignore[return-value]
        self.breaker._tell(ending if verdict == "counted" else None)
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
            text = for_people(error, "an error")
        if open_for is not None:
            time = nanoseconds(open_for)
        return number, text, time, elapsed_nanoseconds(elapsed)


def outcome_number(outcome: str) -> int:
    """Return the number of an outcome."""
    if not isinstance(outcome, str) or outcome not in OUTCOMES:
        raise ValueError(f"there is no outcome {outcome!r}: use one of {', '.join(OUTCOMES)}")
    return OUTCOMES[outcome]
