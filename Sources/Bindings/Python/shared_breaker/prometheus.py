"""Metrics of all breakers of a store for ``prometheus_client``, with the names of ``cbctl metrics``.

    from prometheus_client import REGISTRY
    from shared_breaker.prometheus import BreakerCollector

    REGISTRY.register(BreakerCollector())

Nothing polls and no thread is started: each scrape reads the store once. The figures are those of the whole
host, so a scrape that any one worker answers is the answer for all workers.
"""

from __future__ import annotations

try:
    from prometheus_client.metrics_core import (
        CounterMetricFamily,
        GaugeMetricFamily,
        HistogramMetricFamily,
    )
    from prometheus_client.registry import Collector
except ModuleNotFoundError as error:
    raise ModuleNotFoundError(
        "shared_breaker.prometheus needs the package prometheus_client: "
        "pip install 'shared-breaker[prometheus]'", name=error.name) from error

from ._metrics import BREAKER_FAMILIES, STORE_FAMILIES, Family, Source, samples_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from ._metrics import Labels, Samples, Stores

    Metric = CounterMetricFamily | GaugeMetricFamily | HistogramMetricFamily

__all__ = ["BreakerCollector"]


class BreakerCollector(Collector):
    """Collects the metrics of a store, or of several stores, each time a registry asks for them.

    It never raises because a store has failed, and never creates one. ``shared_breaker_store_up`` is 0
    if the store cannot be read, and left out before its first use; then it has no breakers either.
    """

    def __init__(
        self, stores: Stores | None = None, *, prefix: str | None = None, limit: int = 1_000
    ) -> None:
        """Name what to collect. Nothing is read yet.

        ``stores`` is a store, or a mapping from values of the label ``store`` to stores; without it, the
        default store is used. ``prefix`` selects the breakers whose names begin with it. Of those, the
        first ``limit`` by name are collected for each store, and
        ``shared_breaker_store_breakers_left_out`` counts the others.
        """
        self._source = Source(stores, prefix, limit)

    def describe(self) -> list[Metric]:
        """Return the metrics without samples, so that registering reads nothing."""
        return [_metric(family, []) for family in _FAMILIES]

    def collect(self) -> Iterator[Metric]:
        """Read the stores, and return their metrics."""
        read = self._source.read()
        for family in _FAMILIES:
            samples = samples_of(family, read)
            if samples:
                yield _metric(family, samples)


_FAMILIES = STORE_FAMILIES + BREAKER_FAMILIES


def _metric(family: Family, samples: Samples) -> Metric:
    name = f"shared_breaker_{family.name}"
    if family.kind == "histogram":
        return _histogram(name, family.help, samples)
    kind = CounterMetricFamily if family.kind == "counter" else GaugeMetricFamily
    metric: Metric = kind(name, family.help)
    for labels, value in samples:
        metric.add_sample(name, labels, value)
    return metric


def _histogram(name: str, text: str, samples: Samples) -> Metric:
    metric = HistogramMetricFamily(name, text)
    for labels, value in samples:
        if "le" not in labels:
            metric.add_sample(f"{name}_sum", labels, value)
            continue
        metric.add_sample(f"{name}_bucket", labels, value)
        if labels["le"] == "+Inf":
            others = {label: text for label, text in labels.items() if label != "le"}
            metric.add_sample(f"{name}_count", others, value)
    return metric
