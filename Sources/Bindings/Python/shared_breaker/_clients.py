"""The common part of the integrations of HTTP clients: the breaker of a request, and the end of its call."""

from __future__ import annotations

from collections import OrderedDict
from contextlib import suppress
from functools import lru_cache

from ._breaker import Breaker
from ._http import retry_after, too_many_requests
from ._judge import FAILURE, IGNORED, LONGEST_WORDS, SUCCESS, Judge, judged, status_of
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
_FAILED: Ending = (FAILURE, None, 0)
_PORTS = {"http": 80, "https": 443, "ws": 80, "wss": 443}
# As many as most programs have hosts. Breakers beyond that are looked up again in the store.
_BREAKERS = 1_024
_LONGEST_HOST = 150
_SHORTEST_TARGET = 6
# The keywords that a breaker takes besides the words of its policy.
_RULES = frozenset({"policy", "store", "open_for", "ignore", "permanent", "failure", "hold", "on_store_failure"})


def is_outage(value: object) -> bool:
    """Return whether an answer says that the service has failed: 408, and 500 or more. Every exception does.

    501 and 505 are about the request: the service will never do what it asks.
    """
    if isinstance(value, BaseException):
        return True
    status = status_of(value)
    return status is not None and (status == 408 or (status >= 500 and status not in (501, 505)))


def origin(scheme: str, host: str | None, port: int | None) -> str:
    """Return the name of the breaker for a host and a port, such as ``http/api.example:443``."""
    host = host or "unknown"
    if len(host) > _LONGEST_HOST:
        host = f"{host[:_LONGEST_HOST - 13]}-{_hash(host)}"
    return f"http/{f'[{host}]' if ':' in host else host.lower()}:{port or _PORTS.get(scheme, 0)}"


def with_credentials(name: str, headers: Any) -> str:
    """Return the name of a breaker for one account: a hash tells the credentials apart, and does not show them."""
    values = [headers.get(header) for header in ("authorization", "x-api-key", "api-key", "x-goog-api-key")]
    given = "\0".join(f"{value}" for value in values if value)
    return f"{name}/{_hash(given)}" if given else name


def _hash(text: str) -> str:
    import hashlib

    return hashlib.sha256(text.encode()).hexdigest()[:12]


class Errors:
    """The types of exceptions that tell something about the service, and the parts of their words that stay secret."""

    def __init__(
        self,
        of_service: tuple[type[BaseException], ...],
        of_caller: tuple[type[BaseException], ...],
        targets_of: Callable[[Any], tuple[str, ...]],
    ) -> None:
        """Take these types, and those among them that are the caller's own mistakes. No other exception tells anything.

        ``targets_of`` returns the path and the query of a URL, in each form in which the client writes them.
        """
        self._of_service = of_service
        self._of_caller = of_caller
        self._targets_of = targets_of

    def tell_nothing(self, error: BaseException) -> bool:
        """Return whether an exception is neither the service's nor a cancellation, which the breaker judges."""
        return isinstance(error, Exception) and (
            not isinstance(error, self._of_service) or isinstance(error, self._of_caller))

    def words(self, text: bytes, url: object) -> bytes:
        """Return what a client says of an error without the path and the query of the request, which may be secret."""
        is_cut = len(text) >= LONGEST_WORDS
        for target in self._targets_of(url):
            hidden = target.encode(errors="replace")
            # A shorter one hides nothing, and may be a part of any word.
            if len(hidden) > _SHORTEST_TARGET:
                text = text.replace(hidden, b"/...")
                # Of a text that was cut, the end may be the beginning of it.
                if is_cut:
                    text = text.partition(hidden[:_SHORTEST_TARGET])[0]
        return text


class Calls:
    """Makes the calls of one client: of one breaker, or of a breaker for each name."""

    def __init__(
        self,
        breaker: Breaker | None,
        name: str | Callable[[Any], str] | None,
        usual_name: Callable[[Any], str],
        options: dict[str, Any],
        errors: Errors,
    ) -> None:
        """Take the breaker, or the name of a request's breaker and what ``shared_breaker.breaker`` takes."""
        if breaker is not None and not isinstance(breaker, Breaker):
            raise TypeError(f"{breaker!r} is not a Breaker")
        given = sorted(options) if name is None else ["name", *sorted(options)]
        if breaker is not None and given:
            raise TypeError(
                f"{breaker!r} has its name, its policy and its rules already: leave out {', '.join(given)}, or breaker")
        self._errors = errors
        self._breaker = breaker
        self._name = usual_name if name is None else name
        self._store = options.pop("store", None)
        self._options = {"failure": is_outage, "hold": too_many_requests, **options}
        open_for = options.get("open_for")
        if not callable(open_for):
            # An answer may name its time all the same.
            words = {} if open_for is None else {"open_for": open_for}
            self._options["policy"] = policy_words(options.get("policy"), words)
            self._options["open_for"] = retry_after
        # The most recent ones last.
        self._named: OrderedDict[str, Breaker] = OrderedDict()
        # A misspelled keyword raises here, and not at the first request.
        policy_words(None, {key: value for key, value in options.items() if key not in _RULES})

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "_named": OrderedDict()}

    def _name_of(self, request: object) -> str:
        return self._name if isinstance(self._name, str) else self._name(request)

    def _known(self, name: str) -> Breaker | None:
        """Return the breaker with a name, if this client has used it lately."""
        # Without a lock, which the child of a fork might find taken: another thread may take a breaker out meanwhile.
        with suppress(KeyError):
            self._named.move_to_end(name)
            return self._named[name]
        return None

    def _breaker_of(self, request: object) -> Breaker:
        if self._breaker is not None:
            return self._breaker
        name = self._name_of(request)
        return self._known(name) or self._made(name)

    async def _breaker_of_async(self, request: object) -> Breaker:
        if self._breaker is not None:
            return self._breaker
        name = self._name_of(request)
        if known := self._known(name):
            return known
        from ._aio import in_thread

        # The first request of a host declares its policy, which may have to wait for the file.
        return await in_thread(lambda: self._known(name) or self._made(name))

    def _made(self, name: str) -> Breaker:
        from . import breaker

        made = self._named[name] = breaker(name, store=self._store, **self._options)
        with suppress(KeyError):
            while len(self._named) > _BREAKERS:
                self._named.popitem(last=False)
        return made

    def begin(self, request: Any, wait: float | None = None) -> Call:
        """Begin the call of a request; raise Rejected if its breaker rejects it.

        ``wait`` is how long the client waits for room, if it says so.
        """
        return Call(self._breaker_of(request).acquire(wait=wait), self._errors, request.url)

    async def begin_async(self, request: Any, wait: float | None = None) -> Call:
        """Do what ``begin`` does, without blocking the event loop."""
        breaker = await self._breaker_of_async(request)
        return Call(await breaker.acquire_async(wait=wait), self._errors, request.url)


class Call:
    """A call that was permitted, until its answer has been read or closed.

    Until then it takes its room. If it is dropped before, its permit is given back.
    """

    __slots__ = ("_errors", "_permit", "_url", "inner", "is_awaited")

    def __init__(self, permit: Permit, errors: Errors, url: object) -> None:
        self._permit = permit
        self._errors = errors
        self._url = url
        # The call of another breaker with the same answer.
        self.inner: Call | None = None
        # The report of the end comes by itself, so callbacks and a body that is closed leave it alone.
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
        try:
            if self.inner is not None:
                self.inner.ended(error)
        finally:
            if self._permit.kind:
                ending, raised = self._ending(error)
                self._permit._report(*ending)
                if raised is not None:
                    raise raised

    async def ended_async(self, error: BaseException | None = None) -> None:
        """Do what ``ended`` does, without blocking the event loop."""
        try:
            if self.inner is not None:
                await self.inner.ended_async(error)
        finally:
            if self._permit.kind:
                ending, raised = self._ending(error)
                await self._permit._report_async(*ending)
                if raised is not None:
                    raise raised

    def end_soon(self, error: BaseException | None = None) -> None:
        """Do what ``ended`` does, in a callback of an event loop, which must not wait."""
        if self.is_awaited:
            return
        if self.inner is not None:
            self.inner.end_soon(error)
        if not self._permit.kind:
            return
        ending, raised = self._ending(error)
        if self._permit._leave(*ending, 0, False) is None:
            from ._aio import hand_over

            if hand_over(lambda: self._permit._report(*ending)) is None:
                self._permit.breaker._leave_elsewhere(self._permit, *ending, 0)
        if raised is not None:
            raise raised

    def _judged(self, answer: object) -> Ending | None:
        """Return how the call ends with the headers of its answer; None if it goes on."""
        breaker = self._permit.breaker
        judge = breaker._judge_result
        ending = judge(answer) if judge else None
        if ending is None and not breaker._judges_failures:
            ending = _usual(judge is None)(answer)
        return _DONE if ending is None and self._permit.kind == "probe" else ending

    def _ending(self, error: BaseException | None) -> tuple[Ending, BaseException | None]:
        """Return how the call ends, and what was raised while that was judged."""
        if error is None:
            return _DONE, None
        if self._errors.tell_nothing(error):
            return _NEUTRAL, None
        ending, raised = judged(self._permit.breaker._judge, error, _FAILED)
        number, text, time = ending or _DONE
        return (number, text and self._errors.words(text, self._url), time), raised


@lru_cache(2)
def _usual(holds: bool) -> Callable[[object], Ending | None]:
    """Return the judge of answers for breakers without rules of their own for failures."""
    return Judge(failure=is_outage, open_for=retry_after, hold=too_many_requests if holds else None).result
