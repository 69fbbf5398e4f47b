"""Metrics of all breakers of a store, and events on spans, for OpenTelemetry.

    from shared_breaker.opentelemetry import instrument

    instrument()

The metrics are observable instruments: no thread is started, and each collection reads the store once.
"""

from __future__ import annotations

import functools
import time

try:
    from opentelemetry import metrics, trace
except ModuleNotFoundError as error:
    raise ModuleNotFoundError(
        "shared_breaker.opentelemetry needs the package opentelemetry-api: "
        "pip install 'shared-breaker[opentelemetry]'", name=error.name) from error

from . import _extension
from ._metrics import BREAKER_FAMILIES, STORE_FAMILIES, Family, Source, samples_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from opentelemetry.metrics import CallbackOptions, Meter, MeterProvider, Observation

    from ._events import Event
    from ._metrics import Figures, Labels, Samples, Snapshot, Stores

__all__ = ["instrument"]


def _observable(family: Family) -> list[Family]:
    """Return a family as it can be observed: of a histogram only the count and the sum."""
    if family.kind != "histogram":
        return [family]
    name = family.name.removesuffix("_seconds")

    def count(breaker: Snapshot) -> Samples:
        return [
            ({"name": labels["name"]}, value) for labels, value in family.samples(breaker)
            if labels.get("le") == "+Inf"]

    def total(breaker: Snapshot) -> Samples:
        return [(labels, value) for labels, value in family.samples(breaker) if "le" not in labels]

    return [
        Family("counter", f"{name}s_total", "Callers that have waited for room and had their turn.", count),
        Family("counter", f"{name}_duration_seconds_total", family.help, total)]


# Each of them says when and by what something was collected, which OpenTelemetry says itself.
_LEFT_OUT = {"build_info", "collected_timestamp_seconds"}
_FAMILIES = [
    part for family in STORE_FAMILIES + BREAKER_FAMILIES if family.name not in _LEFT_OUT
    for part in _observable(family)]
_UNITS = {"_seconds": "s", "_bytes": "By"}

# Without its unit, the name of this metric would be that of another one.
_RENAMED = {"state_seconds_total": "state_duration_seconds_total"}


def instrument(
    stores: Stores | None = None,
    *,
    prefix: str | None = None,
    limit: int = 1_000,
    with_metrics: bool = True,
    with_spans: bool = True,
    meter_provider: MeterProvider | None = None,
) -> Callable[[], None]:
    """Report metrics of a store, or of several stores, and events on the spans that are current.

    ``stores`` is a store, or a mapping from values of the attribute ``store`` to stores; without it, the
    default store is used. ``prefix`` selects the breakers whose names begin with it; it and ``limit``
    are for metrics.

    The metrics are those of the whole host. Where many workers export, let one of them do it, and use
    ``with_metrics=False`` in the others. Events on spans are of this process: ``shared_breaker.rejection``,
    ``shared_breaker.failure``, ``shared_breaker.transition`` and ``shared_breaker.store``.

    Returns a function that ends it.
    """
    source = Source(stores, prefix, limit)
    ends: list[Callable[[], None]] = []
    if with_metrics:
        meter = metrics.get_meter("shared_breaker", _extension.version(), meter_provider)
        ends.append(_instruments(meter, source))
    if with_spans:
        ends += [store.listen(_tell_span, calls=True) for store in source.stores.values()]

    def end() -> None:
        for one in ends:
            one()

    return end


class _Reading:
    """The figures of one collection, in which each instrument asks once."""

    _YOUNG = 1.0

    def __init__(self, source: Source) -> None:
        self._source: Source | None = source
        self._asked: set[str] = set()
        self._read: list[tuple[Labels, Figures]] = []
        self._at = 0.0

    def end(self) -> None:
        self._source = None

    def observe(self, family: Family, options: CallbackOptions) -> list[Observation]:
        source = self._source
        if source is None:
            return []
        # A collection begins when an instrument asks that has asked before.
        if family.name in self._asked or time.monotonic() - self._at > self._YOUNG:
            self._asked = set()
        if not self._asked:
            self._read, self._at = source.read(), time.monotonic()
        self._asked.add(family.name)
        return [
            metrics.Observation(value, labels) for labels, value in samples_of(family, self._read)]


def _instruments(meter: Meter, source: Source) -> Callable[[], None]:
    reading = _Reading(source)
    for family in _FAMILIES:
        name, unit = _RENAMED.get(family.name, family.name).removesuffix("_total"), ""
        for suffix, symbol in _UNITS.items():
            if name.endswith(suffix):
                name, unit = name.removesuffix(suffix), symbol
        create = (
            meter.create_observable_counter if family.kind == "counter"
            else meter.create_observable_gauge)
        create(
            f"shared_breaker.{name}", [functools.partial(reading.observe, family)], unit, family.help)
    return reading.end


def _tell_span(event: Event) -> None:
    """Add an event to the span of the call that has found it."""
    span = trace.get_current_span()
    if not span.is_recording():
        return
    words: dict[str, str | float | None] = {"name": event.name}
    if event.kind == "state":
        kind = "transition"
        words |= {"from": event.before, "to": event.after}
    else:
        kind = event.kind
        words |= {"state" if kind in ("rejection", "store") else "outcome": event.after}
        words |= {"message": event.message, "retry_after": event.retry_after}
    attributes = {f"shared_breaker.{key}": value for key, value in words.items() if value is not None}
    span.add_event(f"shared_breaker.{kind}", attributes)
