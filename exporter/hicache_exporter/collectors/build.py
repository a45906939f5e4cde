"""Which sidecar this is."""

from __future__ import annotations

import platform
from collections.abc import Iterable

from prometheus_client.metrics_core import Metric

from hicache_exporter import __version__, names
from hicache_exporter.collectors.page import Page


class BuildCollector:
    def collect(self) -> Iterable[Metric]:
        page = Page()
        page.add(names.BUILD_INFO, 1, __version__, platform.python_version())
        return page.metrics()
