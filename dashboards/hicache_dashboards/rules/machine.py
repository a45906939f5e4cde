"""Memory of the engine's processes."""

from __future__ import annotations

from hicache_dashboards.config import Settings
from hicache_dashboards.promql import ratio
from hicache_dashboards.rules.expressions import level
from hicache_dashboards.rules.model import Recording
from hicache_exporter import names

PINNED_RATIO = "hicache:l2_pinned_ratio:now"


def recordings(settings: Settings) -> list[Recording]:
    """A page counts as locked or as pinned, by the way it was done; the larger of the two is taken, never their sum."""
    pinned = level(names.RANK_MEMORY, "max", ("rank",), {"kind": "=~locked|pinned"})
    return [Recording(PINNED_RATIO, ratio(pinned, level(names.RANK_L2, keep=("rank",))))]
