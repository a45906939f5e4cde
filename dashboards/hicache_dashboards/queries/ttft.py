"""Time to first token, by the tier that served the prefix."""

from __future__ import annotations

from hicache_dashboards.config import Settings
from hicache_dashboards.queries import needs
from hicache_dashboards.queries.model import Query
from hicache_dashboards.queries.vocabulary import add, each_rate, first_of, mean, quantile, rate, share, share_now
from hicache_exporter import names

COLD, HOST = {"tier": "none"}, {"tier": "host"}

MEAN_BY_TIER = Query(mean(names.TTFT, "tier"), "{{tier}}", optional=needs.PLUGIN)
REQUESTS_BY_TIER = Query(rate(names.TTFT, "tier", part="count"), "{{tier}}", optional=needs.PLUGIN)
COLD_TO_HOST = Query(
    share_now(f"({mean(names.TTFT, matchers=COLD, window='1h')})", f"({mean(names.TTFT, matchers=HOST, window='1h')})"),
    "cold ÷ L2 hit",
    instant=True,
    optional="needs the plugin, and cold requests as well as L2 hits in the last hour",
)
HEATMAP = Query(rate(names.TTFT, "le", part="bucket"), "{{le}}", buckets=True, exemplars=True, optional=needs.PLUGIN)
HEATMAP_HOST = Query(
    rate(names.TTFT, "le", matchers=HOST, part="bucket"), "{{le}}", buckets=True, exemplars=True, optional=needs.PLUGIN
)
ENGINE_MEAN = Query(mean(names.ENGINE_TTFT), "engine, mean")
QUEUE_MEAN = Query(mean(names.ENGINE_QUEUE_SECONDS), "of it in the queue, mean")
RECORDER_MEAN = Query(mean(names.TTFT), "scheduler, mean", optional=needs.PLUGIN)


def by_tier(q: float) -> Query:
    return Query(quantile(q, names.TTFT, "tier"), f"{{{{tier}}}} p{q * 100:g}", exemplars=True, optional=needs.PLUGIN)


def by_tier_now(q: float) -> Query:
    return Query(quantile(q, names.TTFT, "tier", window="$__range"), "{{tier}}", instant=True, optional=needs.PLUGIN)


def overall(q: float) -> Query:
    return Query(quantile(q, names.ENGINE_TTFT), f"engine, p{q * 100:g}")


def regression(statistic: str, legend: str, ago: str = "") -> Query:
    """Over an hour, so that days can be compared."""
    measured = mean(names.ENGINE_TTFT, window="1h", ago=ago)
    if statistic == "p95":
        measured = quantile(0.95, names.ENGINE_TTFT, window="1h", ago=ago)
    return Query(measured, legend, optional=f"needs a history of {ago}" if ago else "")


def times_slower(ago: str, legend: str) -> Query:
    today, before = mean(names.ENGINE_TTFT, window="1h"), mean(names.ENGINE_TTFT, window="1h", ago=ago)
    return Query(share(f"({today})", f"({before})"), legend, optional=f"needs a history of {ago}")


def slow_share(settings: Settings) -> Query:
    return Query(_slow(settings, "$__rate_interval"), f"over {settings.ttft.target_seconds:g} s")


def burn_rate(settings: Settings, window: str) -> Query:
    budget = round(1 - settings.ttft.objective, 6)
    return Query(f"({_slow(settings, window)}) / {budget}", f"over {window}")


def _slow(settings: Settings, window: str) -> str:
    target = {"le": str(float(settings.ttft.target_seconds))}
    fast, counted = (
        add(
            first_of(
                each_rate(names.ENGINE_TTFT, matchers, part, window),
                each_rate(names.TTFT, matchers, part, window),
            )
        )
        for matchers, part in ((target, "bucket"), (None, "count"))
    )
    return f"1 - {share(fast, counted)}"
