"""Scrapes that were turned away."""

from __future__ import annotations

from collections.abc import Iterable

from prometheus_client.metrics_core import Metric

from hicache_exporter import names
from hicache_exporter.collectors.page import Page


class ScrapesCollector:
    def __init__(self) -> None:
        self.refused = 0

    def collect(self) -> Iterable[Metric]:
        page = Page()
        page.add(names.SCRAPES_REFUSED, self.refused)
        return page.metrics()
