"""Facts of engines as metric families, built anew at every scrape."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache

from prometheus_client.metrics_core import Metric
from prometheus_client.samples import Exemplar
from prometheus_client.utils import floatToGoString

from hicache_exporter.core.observed import Histogram
from hicache_exporter.names import Family

_SUFFIX = {"counter": "_total", "info": "_info"}


class Families:
    """Every sample carries the label ``engine`` and the labels that its family lists, in their order."""

    def __init__(self) -> None:
        self._metrics: dict[str, Metric] = {}

    def add(self, family: Family, engine: str, value: float, *labels: str) -> None:
        self._of(family).add_sample(family.name + _SUFFIX.get(family.type, ""), _labels(family, engine, labels), value)

    def by_label(self, family: Family, engine: str, values: Mapping[str, float], *before: str) -> None:
        """One sample for each value of the family's last label."""
        for label, value in values.items():
            self.add(family, engine, value, *before, label)

    def histogram(self, family: Family, engine: str, observed: Histogram, *labels: str) -> None:
        metric, name = self._of(family), family.name
        known = _labels(family, engine, labels)
        inside = 0
        for bucket, bound in enumerate((*observed.bounds, float("inf"))):
            inside += observed.counts[bucket]
            sampled = observed.exemplars.get(bucket)
            exemplar = Exemplar({"trace_id": sampled.trace_id}, sampled.value, sampled.at) if sampled else None
            metric.add_sample(name + "_bucket", {**known, "le": _bound(bound)}, inside, exemplar=exemplar)
        metric.add_sample(name + "_count", known, inside)
        metric.add_sample(name + "_sum", known, observed.total)

    def cumulative(
        self, family: Family, engine: str, bounds: Sequence[str], values: Sequence[float], *labels: str
    ) -> None:
        """A histogram that somebody else counted: its own bounds, and count, sum, cumulative buckets."""
        metric, name = self._of(family), family.name
        known = _labels(family, engine, labels)
        count, total, *buckets = values
        for bound, inside in zip(bounds, buckets, strict=True):
            metric.add_sample(name + "_bucket", {**known, "le": bound}, inside)
        metric.add_sample(name + "_count", known, count)
        metric.add_sample(name + "_sum", known, total)

    def metrics(self) -> Iterable[Metric]:
        return self._metrics.values()

    def _of(self, family: Family) -> Metric:
        metric = self._metrics.get(family.name)
        if metric is None:
            metric = self._metrics[family.name] = Metric(family.name, family.help, family.type, family.unit)
        return metric


def _labels(family: Family, engine: str, labels: tuple[str, ...]) -> dict[str, str]:
    return {"engine": engine, **dict(zip(family.labels, labels, strict=True))}


@lru_cache(maxsize=1024)
def _bound(value: float) -> str:
    text: str = floatToGoString(value)  # type: ignore[no-untyped-call]
    return text
