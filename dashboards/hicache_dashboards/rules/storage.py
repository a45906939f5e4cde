"""What was found in L3, and what came too late."""

from __future__ import annotations

from hicache_dashboards.config import Settings
from hicache_dashboards.promql import ratio
from hicache_dashboards.rules.expressions import increase
from hicache_dashboards.rules.model import Recording
from hicache_exporter import names

FOUND = "hicache:storage_hit_tokens:increase_trend"
TIMEOUT_RATIO = "hicache:storage_timeout_ratio:increase_trend"


def recordings(settings: Settings) -> list[Recording]:
    trend = settings.windows.trend
    late = increase(names.ENGINE_STORAGE_UNFULFILLED_TOKENS, trend, matchers={"reason": "deadline"})
    return [
        Recording(FOUND, increase(names.ENGINE_STORAGE_HIT_TOKENS, trend)),
        Recording(TIMEOUT_RATIO, ratio(late, FOUND)),
    ]
