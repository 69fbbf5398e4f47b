"""The store with its breakers."""

from __future__ import annotations

from ._breaker import Breaker
from ._followed import FollowedStore
from ._judge import Judge
from ._policy import policy_words
from ._store import failure_number
from ._text import name_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Unpack

    from ._judge import HoldJudge, OpenFor, ResultRules, Rules
    from ._policy import PolicyWords, Seconds
    from ._store import StoreFailure


class SharedStore(FollowedStore):
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
        hold: HoldJudge | None = None,
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
          a predicate judges exceptions and results. One that raises is skipped. If it returns text, that is
          what the history says of the failure.
        - ``open_for``: a time, or a function that reads the time from what failed (an exception or a
          result), such as ``retry_after``; None means the time of the policy;
        - ``hold``: a function that returns the seconds for which an exception or a result asks to leave the resource
          alone, such as ``too_many_requests``: 0 if it asks and names no time, None if it does not ask. It is asked
          before ``permanent`` and ``failure``.
        """
        name_of(name)
        keywords: dict[str, object] = {**words}
        reads_time = callable(open_for)
        if open_for is not None and not reads_time:
            keywords["open_for"] = open_for
        time_of = open_for if reads_time else None
        judge = Judge(
            ignore, permanent, failure, time_of,  # type: ignore[arg-type]
            lambda: self._counts_lost_calls(name), hold)
        action = 0 if on_store_failure is None else failure_number(on_store_failure)
        breaker = Breaker(self, name, policy_words(policy, keywords), action, judge)
        self._add(breaker)
        if self._listeners:
            breaker._begin_to_watch()
        return breaker
