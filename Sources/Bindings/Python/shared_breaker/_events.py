"""Events for listeners."""

from __future__ import annotations

from ._errors import StoreError
from ._signals import is_of_signal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable


class Event:
    """An event for a listener."""

    __slots__ = ("after", "before", "kind", "message", "name", "retry_after")

    def __init__(
        self,
        kind: str,
        name: str | None,
        before: str | None,
        after: str,
        message: str | None,
        retry_after: float | None = None,
    ) -> None:
        self.kind = kind
        """``state`` for a breaker, or ``store`` for whether the store can be used; of a call,
        ``rejection`` or ``failure``."""
        self.name = name
        """The name of the breaker; None for an event of the store."""
        self.before = before
        """The state before; None if it is not known, and for a call."""
        self.after = after
        """The state now: of a breaker, or ``available`` or ``unavailable``. It is the state in which the
        breaker rejected a call, and ``counted`` for a failure."""
        self.message = message
        """Why the store cannot be used, why a call was rejected, or what the failed call raised."""
        self.retry_after = retry_after
        """The ``retry_after`` of a rejection."""

    def __repr__(self) -> str:
        return f"<Event {self.kind} {self.name}: {self.before} -> {self.after}>"


class Changes:
    """Finds each change of a state once, however many threads look."""

    __slots__ = ("_seen",)

    def __init__(self, state: str) -> None:
        self._seen = [state]

    @property
    def last(self) -> str:
        """The state that was seen last."""
        return self._seen[0]

    def look(self, state: Callable[[], str]) -> tuple[str, str] | None:
        """Return the states before and after a new change, or None.

        While the store cannot be read there are no changes, because calls go on without it.
        """
        while True:
            before = self._seen
            try:
                after = [state()]
            except StoreError:
                return None
            if after == before:
                return None
            # Another thread may have found a newer change since the state was read. No thread can run
            # between these two lines, because they call nothing.
            if self._seen is before:
                self._seen = after
                return before[0], after[0]


def call_listener(listener: Callable[[Event], object], event: Event) -> None:
    """Call a listener, and log what it raises."""
    try:
        listener(event)
    except Exception as error:
        if is_of_signal(error):
            raise
        import logging

        logging.getLogger("shared_breaker").exception("a listener failed for %r", event)


def remove_listener(
    listeners: list[Callable[[Event], object]], listener: Callable[[Event], object]
) -> None:
    """Remove a listener if it is there."""
    if listener in listeners:
        listeners.remove(listener)
