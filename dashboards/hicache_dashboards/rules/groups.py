"""All recording rules, as the groups of a Prometheus rule file."""

from __future__ import annotations

from hicache_dashboards.config import Settings
from hicache_dashboards.rules import l2, machine, slo, storage, tiers, ttft
from hicache_dashboards.rules.model import Recording


def recording_groups(settings: Settings) -> dict[str, list[Recording]]:
    """Group name to rules. Within a group, rules run in order: what a rule reads is recorded before it."""
    return {
        "hicache-tiers": tiers.recordings(settings),
        "hicache-ttft": ttft.recordings(settings),
        "hicache-slo": slo.recordings(settings),
        "hicache-l2": l2.recordings(settings),
        "hicache-machine": machine.recordings(settings),
        "hicache-storage": storage.recordings(settings),
    }
