"""Service-level objectives over the burn windows: the share of slow requests, and of minutes with a low hit rate."""

from __future__ import annotations

from hicache_dashboards.config import Settings
from hicache_dashboards.promql import number, ratio
from hicache_dashboards.rules import tiers
from hicache_dashboards.rules.expressions import either, rate
from hicache_dashboards.rules.model import Recording
from hicache_exporter import names
from hicache_exporter.names import Family

HIT_RATIO_LOW = "hicache:hit_ratio_low:bool"


def slow_ratio(window: str) -> str:
    return f"hicache:ttft_slow_ratio:rate{window}"


def low_ratio(window: str) -> str:
    return f"hicache:hit_ratio_low:avg{window}"


def burn_windows(settings: Settings) -> list[str]:
    burn = settings.burn
    return list(dict.fromkeys((burn.fast_short, burn.slow_short, burn.fast_long, burn.slow_long)))


def recordings(settings: Settings) -> list[Recording]:
    floor = number(settings.traffic.prompt_tokens_per_second)
    low = (
        f"({tiers.HIT_RATIO_RECENT} < bool {number(settings.hit_rate.floor)}) and {tiers.PROMPT_RATE_RECENT} > {floor}"
    )
    recorded = [Recording(HIT_RATIO_LOW, low)]
    for window in burn_windows(settings):
        recorded.append(Recording(low_ratio(window), f"avg_over_time({HIT_RATIO_LOW}[{window}])"))
        recorded.append(Recording(slow_ratio(window), _slow(settings.ttft.target_seconds, window)))
    return recorded


def _slow(target: float, window: str) -> str:
    return either(_slow_of(names.ENGINE_TTFT, target, window), _slow_of(names.TTFT, target, window))


def _slow_of(family: Family, target: float, window: str) -> str:
    """One minus the bucket at the target. Prometheus 2 and 3 both store its bound as a float with a point."""
    fast = rate(family, window, matchers={"le": str(float(target))}, part="bucket")
    return f"1 - {ratio(fast, rate(family, window, part='count'))}"
