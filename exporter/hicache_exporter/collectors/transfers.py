"""Copies between device and host, and what left a tier. Tokens are logical; bytes and seconds are of all ranks."""

from __future__ import annotations

from collections.abc import Iterable

from prometheus_client.metrics_core import Metric

from hicache_exporter import names
from hicache_exporter.collectors.families import Families
from hicache_exporter.collectors.recorded import by_label, histogram, histograms, recorded_engines, total
from hicache_exporter.core.totals import Totals
from hicache_exporter.follower import Follower


class TransfersCollector:
    def __init__(self, follower: Follower) -> None:
        self._follower = follower

    def collect(self) -> Iterable[Metric]:
        families = Families()
        for engine, leading, ranks in recorded_engines(self._follower):
            families.by_label(names.TRANSFER_BYTES, engine, by_label(ranks, "transfer_bytes"))
            families.by_label(names.TRANSFER_TIMED_BYTES, engine, by_label(ranks, "timed_bytes"))
            for direction, observed in histograms(ranks, "transfer_seconds").items():
                families.histogram(names.TRANSFER_SECONDS, engine, observed, direction)
            if leading:
                _logical(families, engine, leading)
        return families.metrics()


def _logical(families: Families, engine: str, leading: list[Totals]) -> None:
    families.by_label(names.TRANSFERS, engine, by_label(leading, "transfers"))
    families.by_label(names.TRANSFER_TOKENS, engine, by_label(leading, "transfer_tokens"))
    families.by_label(names.TRANSFERS_DROPPED, engine, by_label(leading, "transfers_dropped"))
    families.by_label(names.EVICTED_TOKENS, engine, by_label(leading, "evicted_tokens"))
    families.add(names.BACKUPS_REFUSED, engine, total(leading, "backups_refused"))
    families.add(names.RESETS, engine, total(leading, "resets"))
    families.histogram(names.L2_LIFETIME, engine, histogram(leading, "l2_lifetime"))
