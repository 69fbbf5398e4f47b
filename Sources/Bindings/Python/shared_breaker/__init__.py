"""Circuit breakers that all processes of a host share by name, through one SQLite file.

    from shared_breaker import Rejected, breaker

    payments = breaker("payments", max_failures=3, open_for=30)

    try:
        with payments:
            charge(order)
    except Rejected as rejected:
        retry_later(order, after=rejected.retry_after)

There is no daemon and no server. ``cbctl`` shows and changes the same breakers.
"""

from __future__ import annotations

from . import _extension
from ._breaker import Breaker, Permit
from ._errors import BreakerError, Busy, InvalidName, InvalidPolicy, Rejected, StoreError
from ._events import Event
from ._http import retry_after, too_many_requests
from ._shared_store import SharedStore

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Unpack

    from ._judge import HoldJudge, OpenFor, ResultRules, Rules
    from ._policy import PolicyWords, Seconds
    from ._store import StoreFailure

__all__ = [
    "Breaker",
    "BreakerError",
    "Busy",
    "Event",
    "InvalidName",
    "InvalidPolicy",
    "Permit",
    "Rejected",
    "SharedStore",
    "StoreError",
    "breaker",
    "default_store",
    "retry_after",
    "too_many_requests",
]

__version__ = _extension.version()

_default: SharedStore | None = None


def default_store() -> SharedStore:
    """Return the store at the default path, which ``breaker`` uses unless you pass another one."""
    global _default
    if _default is None:
        _default = SharedStore()
    return _default


def breaker(
    name: str,
    policy: str | None = None,
    *,
    store: SharedStore | None = None,
    open_for: Seconds | OpenFor | None = None,
    ignore: Rules | None = None,
    permanent: Rules | None = None,
    failure: ResultRules | None = None,
    hold: HoldJudge | None = None,
    on_store_failure: StoreFailure | None = None,
    **words: Unpack[PolicyWords],
) -> Breaker:
    """Get the breaker with a name from a store, or from the default one.

    ``SharedStore.breaker`` describes the arguments.
    """
    if store is None:
        store = default_store()
    elif not isinstance(store, SharedStore):
        raise TypeError(f"{store!r} is not a SharedStore")
    return store.breaker(
        name,
        policy,
        open_for=open_for,
        ignore=ignore,
        permanent=permanent,
        failure=failure,
        hold=hold,
        on_store_failure=on_store_failure,
        **words,
    )
