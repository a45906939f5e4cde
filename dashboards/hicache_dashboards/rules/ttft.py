"""TTFT: mean and 95th percentile, overall and by serving tier, now and usually."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from hicache_dashboards.config import Settings
from hicache_dashboards.promql import own_labels, ratio, select
from hicache_dashboards.rules.expressions import either, median, rate
from hicache_dashboards.rules.model import Recording
from hicache_exporter import names
from hicache_exporter.names import Family

ENGINE_VERSIONS = "hicache:engine_versions:count"
STATISTICS = ("mean", "p95")

Statistic = Callable[[Family, str, tuple[str, ...]], str]


@dataclass(frozen=True, slots=True)
class Scope:
    """Whose TTFT: all requests together, or those that one tier served."""

    what: str
    keep: tuple[str, ...]

    @property
    def request_rate(self) -> str:
        return f"hicache:{self.what.replace('ttft_seconds', 'requests')}:rate_recent"

    def record(self, statistic: str, over: str) -> str:
        return f"hicache:{self.what}:{statistic}_{over}"


OVERALL = Scope("ttft_seconds", ())
BY_TIER = Scope("tier_ttft_seconds", ("tier",))


def recordings(settings: Settings) -> list[Recording]:
    w = settings.windows
    recorded = [Recording(ENGINE_VERSIONS, _versions(w.baseline))]
    for scope in (OVERALL, BY_TIER):
        recorded.append(Recording(scope.request_rate, _from(scope, _requests, w.recent)))
        recorded.append(Recording(scope.record("mean", "recent"), _from(scope, _mean, w.recent)))
        recorded.append(Recording(scope.record("p95", "recent"), _from(scope, _p95, w.recent)))
        for statistic in STATISTICS:
            recent = scope.record(statistic, "recent")
            recorded.append(Recording(scope.record(statistic, "baseline"), median(recent, w.baseline, w.trend)))
            recorded.append(Recording(scope.record(statistic, "season"), median(recent, w.trend, w.season)))
    return recorded


def _from(scope: Scope, statistic: Statistic, window: str) -> str:
    """By tier only the recorder knows; overall the engine speaks first: it counts the tokenizer's queue too."""
    recorder = statistic(names.TTFT, window, scope.keep)
    return recorder if scope.keep else either(statistic(names.ENGINE_TTFT, window, ()), recorder)


def _requests(family: Family, window: str, keep: tuple[str, ...]) -> str:
    return rate(family, window, keep, part="count")


def _mean(family: Family, window: str, keep: tuple[str, ...]) -> str:
    return ratio(rate(family, window, keep, part="sum"), rate(family, window, keep, part="count"))


def _p95(family: Family, window: str, keep: tuple[str, ...]) -> str:
    """Only with traffic: over empty buckets a quantile is NaN."""
    quantile = f"histogram_quantile(0.95, {rate(family, window, (*keep, 'le'), part='bucket')})"
    return f"{quantile} and {rate(family, window, keep, part='count')} > 0"


def _versions(window: str) -> str:
    others = [label for label in own_labels(names.ENGINE_INFO) if label != "version"]
    seen = f"last_over_time({select(names.ENGINE_INFO)}[{window}])"
    return f"count without (version) (count without ({', '.join(others)}) ({seen}))"
