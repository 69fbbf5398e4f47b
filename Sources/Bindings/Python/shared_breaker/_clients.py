"""The common part of the integrations of HTTP clients: the breaker of a request, and the end of its call."""

from __future__ import annotations

from functools import lru_cache

from ._breaker import Breaker
from ._http import retry_after, too_many_requests
from ._judge import IGNORED, SUCCESS, status_of
from ._policy import policy_words

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from ._breaker import Permit
    from ._judge import Ending, HoldJudge, OpenFor, ResultRules, Rules
    from ._policy import PolicyWords, Seconds
    from ._shared_store import SharedStore
    from ._store import StoreFailure

    class ClientOptions(PolicyWords, total=False):
        """The keywords of ``shared_breaker.breaker``, for the breakers that a client makes."""

        policy: str | None
        store: SharedStore | None
        open_for: Seconds | OpenFor | None
        ignore: Rules | None
        permanent: Rules | None
        failure: ResultRules | None
        hold: HoldJudge | None
        on_store_failure: StoreFailure | None


_DONE: Ending = (SUCCESS, None, 0)
_NEUTRAL: Ending = (IGNORED, None, 0)
_PORTS = {"http": 80, "https": 443}
# As many as most programs have hosts. Breakers beyond that are looked up again in the store.
_BREAKERS = 1_024


def is_outage(value: object) -> bool:
    """Return whether an answer says that the service has failed: 408, and 500 or more. Every exception does."""
    status = status_of(value)
    return isinstance(value, BaseException) or status == 408 or (status is not None and status >= 500)


def origin(scheme: str, host: str | None, port: int | None) -> str:
    """Return the name of the breaker for a host and a port, such as ``http/api.example:443``."""
    host = host or "unknown"
    return f"http/{f'[{host}]' if ':' in host else host.lower()}:{port or _PORTS.get(scheme, 0)}"


def with_credentials(name: str, headers: Any) -> str:
    """Return the name of a breaker for one account: a hash tells the credentials apart, and does not show them."""
    import hashlib

    values = [headers.get(header) for header in ("authorization", "x-api-key", "api-key", "x-goog-api-key")]
    given = "\0".join(f"{value}" for value in values if value)
    return f"{name}/{hashlib.sha256(given.encode()).hexdigest()[:12]}" if given else name


class Calls:
    """Makes the calls of one client: of one breaker, or of a breaker for each name."""

    def __init__(
        self,
        breaker: Breaker | None,
        name: str | Callable[[Any], str],
        options: dict[str, Any],
        neutral: tuple[type[BaseException], ...],
    ) -> None:
        """Take the breaker, or the name of a request's breaker and what ``shared_breaker.breaker`` takes.

        ``neutral`` are the exceptions that tell nothing about the service.
        """
        if breaker is not None and options:
            raise TypeError(
                f"{breaker!r} has its policy and its rules already: leave out {', '.join(sorted(options))}, or give"
                " name= instead of breaker=")
        if breaker is not None and not isinstance(breaker, Breaker):
            raise TypeError(f"{breaker!r} is not a Breaker")
        self.neutral = neutral
        self._breaker = breaker
        self._name = name
        self._store = options.pop("store", None)
        self._options = {"failure": is_outage, "hold": too_many_requests, **options}
        open_for = options.get("open_for")
        if not callable(open_for):
            # An answer may name its time all the same.
            given = {} if open_for is None else {"open_for": open_for}
            self._options["policy"] = policy_words(options.get("policy"), given)
            self._options["open_for"] = retry_after
        self._named = lru_cache(_BREAKERS)(self._made)

    def _made(self, name: str) -> Breaker:
        from . import breaker

        return breaker(name, store=self._store, **self._options)

    def _breaker_of(self, request: object) -> Breaker:
        if self._breaker is not None:
            return self._breaker
        return self._named(self._name if isinstance(self._name, str) else self._name(request))

    def begin(self, request: object) -> Call:
        """Begin the call of a request; raise Rejected if its breaker rejects it."""
        return Call(self._breaker_of(request).acquire(), self.neutral)

    async def begin_async(self, request: object) -> Call:
        """Do what ``begin`` does, without blocking the event loop."""
        return Call(await self._breaker_of(request).acquire_async(), self.neutral)


class Call:
    """A call that was permitted, until its answer has been read or closed.

    Until then it takes its room. If it is dropped before, its permit is given back.
    """

    __slots__ = ("_neutral", "_permit", "is_awaited")

    def __init__(self, permit: Permit, neutral: tuple[type[BaseException], ...]) -> None:
        self._permit = permit
        self._neutral = neutral
        # A coroutine waits for the report of the end, so callbacks leave it alone.
        self.is_awaited = False

    def answered(self, answer: object) -> bool:
        """Report what an answer says; return whether the call lasts until the end of its body.

        A failure and a hold are over at once, and so is a probe: others wait for what it says.
        """
        if (ending := self._judged(answer)) is None:
            return True
        self._permit._report(*ending)
        return False

    async def answered_async(self, answer: object) -> bool:
        """Do what ``answered`` does, without blocking the event loop."""
        if (ending := self._judged(answer)) is None:
            return True
        await self._permit._report_async(*ending)
        return False

    def ended(self, error: BaseException | None = None) -> None:
        """Report the end of the answer, or the exception that has ended it, once."""
        if self._permit.kind:
            self._permit._report(*self._ending(error))

    async def ended_async(self, error: BaseException | None = None) -> None:
        """Do what ``ended`` does, without blocking the event loop."""
        if self._permit.kind:
            await self._permit._report_async(*self._ending(error))

    def end_soon(self, error: BaseException | None = None) -> None:
        """Do what ``ended`` does, in a callback of an event loop, which must not wait."""
        if self._permit.kind and not self.is_awaited:
            ending = (*self._ending(error), 0)
            if self._permit._leave(*ending, False) is None:
                self._permit.breaker._leave_elsewhere(self._permit, *ending)

    def _judged(self, answer: object) -> Ending | None:
        """Return how the call ends with the headers of its answer; None if it goes on."""
        # A breaker without rules for results is given with rules for exceptions at most.
        judge = self._permit.breaker._judge_result or _usual()
        ending = judge(answer)
        return _DONE if ending is None and self._permit.kind == "probe" else ending

    def _ending(self, error: BaseException | None) -> Ending:
        if error is None:
            return _DONE
        return _NEUTRAL if isinstance(error, self._neutral) else self._permit.breaker._judge(error)


@lru_cache(1)
def _usual() -> Callable[[object], Ending | None]:
    """Return the judge of answers for breakers without rules for results."""
    from ._judge import Judge

    return Judge(failure=is_outage, open_for=retry_after, hold=too_many_requests).result
