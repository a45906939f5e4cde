"""The families of one scrape, built anew each time: those without a sample never come into being."""

from __future__ import annotations

from collections.abc import Iterable

from prometheus_client.metrics_core import Metric

from hicache_exporter.names import Family

SUFFIXES = {"counter": "_total", "info": "_info"}


class Page:
    """Samples by family, with exactly the labels that the family lists, in their order."""

    def __init__(self) -> None:
        self._metrics: dict[str, Metric] = {}

    def add(self, family: Family, value: float | None, *labels: str) -> None:
        """Add one sample. None is no sample: what is not known is absent, not zero."""
        if value is None:
            return
        metric = self._metrics.get(family.name)
        if metric is None:
            metric = self._metrics[family.name] = Metric(family.name, family.help, family.type, family.unit)
        pairs = dict(zip(family.labels, labels, strict=True))
        metric.add_sample(family.name + SUFFIXES.get(family.type, ""), pairs, value)

    def metrics(self) -> Iterable[Metric]:
        return self._metrics.values()
