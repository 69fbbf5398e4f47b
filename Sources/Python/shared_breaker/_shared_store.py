"""The store with its breakers, followers and hooks."""

from __future__ import annotations

from ._breaker import Breaker
from ._events import remove_listener
from ._judge import Judge
from ._policy import nanoseconds, policy_words
from ._store import Store, failure_number
from ._text import called, name_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from threading import Event as ThreadEvent
    from typing import Any, Unpack

    from ._events import Event
    from ._history import Follower
    from ._judge import OpenFor, ResultRules, Rules
    from ._policy import PolicyWords, Seconds
    from ._store import Entry, StoreFailure


class SharedStore(Store):
    """A file with breakers, which is opened when it is first used.

    If you give no path, it is ``$SHARED_BREAKER_STORE``, else ``/var/lib/shared-breaker/breakers.db``
    for root, else ``$XDG_STATE_HOME/shared-breaker/breakers.db`` (``~/.local/state``), which is where
    ``cbctl`` looks, too.
    """

    __slots__ = ()

    def breaker(
        self,
        name: str,
        policy: str | None = None,
        *,
        open_for: Seconds | OpenFor | None = None,
        ignore: Rules | None = None,
        permanent: Rules | None = None,
        failure: ResultRules | None = None,
        on_store_failure: StoreFailure | None = None,
        **words: Unpack[PolicyWords],
    ) -> Breaker:
        """Get the breaker with a name, and declare its policy if you give one.

        Give a policy as keywords, as text such as ``"max-failures=3 open-for=30s"``, or as both; then
        keywords win. The policy that was declared last applies in every process.

        The policy is declared at once if the file exists. Otherwise the first call creates the file and
        declares it.

        By default each ``Exception`` is a failure. Cancellations, and everything else that is not an
        ``Exception``, are ignored unless a rule names their type. With ``lost_calls="failure"``, a ``SystemExit``
        with a code other than 0 that the handler of a signal raises in the call is a failure. Rules are exception types, predicates, or
        iterables of them:

        - ``ignore``: exceptions that tell nothing about the resource;
        - ``permanent``: exceptions that open the breaker at once, since trying again cannot help;
        - ``failure``: the only types of exceptions that are failures, so that all others are ignored;
          a predicate judges exceptions and results. One that raises is skipped.
        - ``open_for``: a time, or a function that reads the time from what failed (an exception or a
          result), such as ``retry_after``; None means the time of the policy.
        """
        name_of(name)
        keywords: dict[str, object] = {**words}
        reads_time = callable(open_for)
        if open_for is not None and not reads_time:
            keywords["open_for"] = open_for
        time_of = open_for if reads_time else None
        judge = Judge(
            ignore, permanent, failure, time_of,  # type: ignore[arg-type]
            lambda: self._counts_lost_calls(name))
        action = 0 if on_store_failure is None else failure_number(on_store_failure)
        breaker = Breaker(self, name, policy_words(policy, keywords), action, judge)
        self._breakers.add(breaker)
        if self._listeners:
            breaker._begin_to_watch()
        return breaker

    # Following

    def follow(self, name: str | None = None, *, after: int | None = None) -> Follower:
        """Follow what happens in all processes, as it happens, with ``for`` or ``async for``.

        It begins now, or after the entry whose ``id`` is ``after``. Nothing polls: the kernel wakes whatever
        waits. It ends when it or the store is closed.
        """
        from ._history import Follower

        return Follower(self, name, after)

    def handle(
        self,
        hook: str,
        function: Callable[[Entry], object],
        name: str | None = None,
        *,
        timeout: Seconds = 60,
        attempts: int = 5,
        stop: ThreadEvent | None = None,
    ) -> None:
        """Call a function once for each entry of the history, in one of the processes that ask.

        It returns when ``stop`` is set or the store is closed, within two seconds. If the function
        raises, or the process dies, the entry is handed out again, up to ``attempts`` times. So is an
        entry whose result could not be written because the store was lost.
        """
        from ._history import handle

        handle(self, hook, function, name, nanoseconds(timeout), attempts, stop)

    async def handle_async(
        self,
        hook: str,
        function: Callable[[Entry], Any],
        name: str | None = None,
        *,
        timeout: Seconds = 60,
        attempts: int = 5,
    ) -> None:
        """Do what ``handle`` does with a coroutine function, until its task is cancelled.

        It also returns when the store is closed.
        """
        from ._history import handle_async

        await handle_async(self, hook, function, name, nanoseconds(timeout), attempts)

    # Listening

    def listen(
        self, listener: Callable[[Event], object], *, calls: bool = False
    ) -> Callable[[], None]:
        """Do what ``Breaker.listen`` does for all breakers got from this object, and for the store.

        The listener is also told when this process loses the store, and when it has it back. With
        ``calls``, it is told of each call of this process that is rejected, and of each failure that
        counts, except those that are reported with a token. Do little there: there may be many.
        """
        called(listener, "a listener")
        self._listeners.append(listener)
        if calls:
            self._call_listeners.append(listener)
        for breaker in list(self._breakers):
            breaker._begin_to_watch()
        return lambda: self._end_listening(listener, calls)

    def _end_listening(self, listener: Callable[[Event], object], calls: bool) -> None:
        remove_listener(self._listeners, listener)
        if calls:
            remove_listener(self._call_listeners, listener)
