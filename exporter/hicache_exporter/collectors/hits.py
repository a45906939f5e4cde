"""What each tier served, counted once a request, and the time to first token by the tier that served it."""

from __future__ import annotations

from collections.abc import Iterable

from prometheus_client.metrics_core import Metric

from hicache_exporter import names
from hicache_exporter.collectors.families import Families
from hicache_exporter.collectors.recorded import by_label, histograms, recorded_engines, total
from hicache_exporter.follower import Follower


class HitsCollector:
    def __init__(self, follower: Follower) -> None:
        self._follower = follower

    def collect(self) -> Iterable[Metric]:
        families = Families()
        for engine, leading, _ in recorded_engines(self._follower):
            if not leading:
                continue  # no rank speaks for the engine: its logical tokens are not known
            families.by_label(names.HIT_TOKENS, engine, by_label(leading, "hit_tokens"))
            families.by_label(names.HIT_DIFFERENCE, engine, by_label(leading, "hit_difference"))
            families.add(names.COMPUTED_TOKENS, engine, total(leading, "computed_tokens"))
            families.add(names.PROMPT_TOKENS, engine, total(leading, "prompt_tokens"))
            families.by_label(names.REQUESTS, engine, by_label(leading, "requests"))
            for tier, observed in histograms(leading, "ttft").items():
                families.histogram(names.TTFT, engine, observed, tier)
        return families.metrics()
