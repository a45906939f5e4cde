"""Verdicts, and what the content witness found."""

from __future__ import annotations

from collections.abc import Iterable

from prometheus_client.metrics_core import Metric

from hicache_exporter import names
from hicache_exporter.collectors.families import Families
from hicache_exporter.collectors.recorded import by_label, recorded_engines
from hicache_exporter.follower import Follower
from hicache_exporter.judging import Judging


class ProofsCollector:
    def __init__(self, follower: Follower, judging: Judging) -> None:
        self._follower = follower
        self._judging = judging

    def collect(self) -> Iterable[Metric]:
        families = Families()
        for engine, leading, ranks in recorded_engines(self._follower):
            families.by_label(names.CONTENT_SLOTS, engine, by_label(ranks, "content_tokens"))
            if leading:
                counts = self._judging.counts_of(engine)
                families.by_label(names.VERDICTS_TOTAL, engine, counts.verdicts)
                families.by_label(names.CONTENT_TOTAL, engine, counts.content)
        return families.metrics()
