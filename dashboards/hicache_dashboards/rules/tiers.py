"""Hit ratios: how much of the prompt each tier served, now and usually."""

from __future__ import annotations

from hicache_dashboards.config import Settings
from hicache_dashboards.promql import ratio
from hicache_dashboards.rules.expressions import either, median, rate
from hicache_dashboards.rules.model import Recording
from hicache_exporter import names

PROMPT_RATE_RECENT = "hicache:prompt_tokens:rate_recent"
PROMPT_RATE_TREND = "hicache:prompt_tokens:rate_trend"
HIT_RATIO_RECENT = "hicache:hit_ratio:recent"
HIT_RATIO_TREND = "hicache:hit_ratio:trend"
HIT_RATIO_BASELINE = "hicache:hit_ratio:baseline"
HIT_RATIO_SEASON = "hicache:hit_ratio:season"
TIER_HIT_RATIO_RECENT = "hicache:tier_hit_ratio:recent"


def recordings(settings: Settings) -> list[Recording]:
    w = settings.windows
    return [
        Recording(PROMPT_RATE_RECENT, _prompt_rate(w.recent)),
        Recording(PROMPT_RATE_TREND, _prompt_rate(w.trend)),
        Recording(HIT_RATIO_RECENT, _hit_ratio(w.recent)),
        Recording(HIT_RATIO_TREND, _hit_ratio(w.trend)),
        Recording(TIER_HIT_RATIO_RECENT, _tier_hit_ratio(w.recent)),
        Recording(HIT_RATIO_BASELINE, median(HIT_RATIO_RECENT, w.baseline, w.trend)),
        Recording(HIT_RATIO_SEASON, median(HIT_RATIO_RECENT, w.trend, w.season)),
    ]


def _prompt_rate(window: str) -> str:
    return either(rate(names.PROMPT_TOKENS, window), rate(names.ENGINE_PROMPT_TOKENS, window))


def _hit_ratio(window: str) -> str:
    """From the recorder, which counts a request once, at admission; without it, as the engine counts."""
    return either(
        ratio(rate(names.HIT_TOKENS, window), rate(names.PROMPT_TOKENS, window)),
        ratio(rate(names.ENGINE_CACHED_TOKENS, window), rate(names.ENGINE_PROMPT_TOKENS, window)),
    )


def _tier_hit_ratio(window: str) -> str:
    tier, each = ("tier",), "ignoring (tier) group_left ()"
    return either(
        ratio(rate(names.HIT_TOKENS, window, tier), rate(names.PROMPT_TOKENS, window), each),
        ratio(rate(names.ENGINE_CACHED_TOKENS, window, tier), rate(names.ENGINE_PROMPT_TOKENS, window), each),
    )
