"""Memory of the engine's processes."""

from __future__ import annotations

from hicache_dashboards.config import Settings
from hicache_dashboards.promql import ratio
from hicache_dashboards.rules.expressions import level
from hicache_dashboards.rules.model import Recording
from hicache_exporter import names

PINNED_RATIO = "hicache:l2_pinned_ratio:now"


def recordings(settings: Settings) -> list[Recording]:
    """By the process's own account: what a GPU's driver pins, the kernel counts neither as locked nor as pinned."""
    pinned, configured = (level(family, keep=("rank",)) for family in (names.RANK_L2_PINNED, names.RANK_L2))
    return [Recording(PINNED_RATIO, ratio(pinned, configured))]
