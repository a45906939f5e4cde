"""Load-backs: what was promised, what was loaded, why not, and how long it took."""

from __future__ import annotations

from collections.abc import Iterable

from prometheus_client.metrics_core import Metric

from hicache_exporter import names
from hicache_exporter.collectors.families import Families
from hicache_exporter.collectors.recorded import by_label, histogram, recorded_engines, total
from hicache_exporter.follower import Follower


class LoadBacksCollector:
    def __init__(self, follower: Follower) -> None:
        self._follower = follower

    def collect(self) -> Iterable[Metric]:
        families = Families()
        for engine, leading, _ in recorded_engines(self._follower):
            if not leading:
                continue
            families.by_label(names.LOAD_BACKS, engine, by_label(leading, "load_backs"))
            families.add(names.LOAD_BACK_PROMISED, engine, total(leading, "promised_tokens"))
            families.add(names.LOAD_BACK_LOADED, engine, total(leading, "loaded_tokens"))
            families.histogram(names.LOAD_BACK_WAIT, engine, histogram(leading, "load_back_wait"))
            families.histogram(names.L2_REUSE_GAP, engine, histogram(leading, "reuse_gap"))
        return families.metrics()
