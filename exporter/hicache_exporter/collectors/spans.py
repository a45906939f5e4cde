"""The export of spans: whether it is on, and what became of them."""

from __future__ import annotations

from collections.abc import Iterable

from prometheus_client.metrics_core import Metric

from hicache_exporter import names
from hicache_exporter.collectors.page import Page
from hicache_exporter.spanning import STATES, Spanning


class SpansCollector:
    def __init__(self, spanning: Spanning) -> None:
        self._spanning = spanning

    def collect(self) -> Iterable[Metric]:
        page = Page()
        for state in STATES:
            page.add(names.SPAN_EXPORT, state == self._spanning.state, state)
        for outcome, count in self._spanning.outcomes().items():
            page.add(names.SPANS, count, outcome)
        return page.metrics()
