"""Is the first token as fast as it used to be, and as fast as promised?"""

from __future__ import annotations

from hicache_dashboards.alerts.model import Alert, Severity
from hicache_dashboards.alerts.template import ENGINE, TIER, recorded, value
from hicache_dashboards.config import Settings
from hicache_dashboards.promql import number
from hicache_dashboards.rules import slo, ttft
from hicache_dashboards.rules.expressions import ENGINE as SAME_ENGINE
from hicache_dashboards.rules.ttft import BY_TIER, OVERALL, Scope


def alerts(settings: Settings) -> list[Alert]:
    regressions = [
        _regressed(settings, scope, statistic) for scope in (OVERALL, BY_TIER) for statistic in ttft.STATISTICS
    ]
    b, w = settings.burn, settings.windows
    return [
        *regressions,
        _burn(settings, "Fast", "critical", (b.fast_long, b.fast_short), b.fast_rate, w.brief),
        _burn(settings, "Slow", "warning", (b.slow_long, b.slow_short), b.slow_rate, w.sustained),
    ]


def _regressed(s: Settings, scope: Scope, statistic: str) -> Alert:
    """Slower than the day before and, where known, than the same hour last week; silent after an upgrade."""
    recent, baseline, season = (scope.record(statistic, over) for over in ("recent", "baseline", "season"))
    labels = ("job", "instance", "engine", *scope.keep)
    of_tier = f" of requests served by {TIER}" if scope.keep else ""
    return Alert(
        name="HiCacheTierTtftRegressed" if scope.keep else "HiCacheTtftRegressed",
        area="ttft",
        severity="warning",
        board="hicache-ttft",
        wait=s.windows.sustained,
        labels=(("statistic", statistic),),
        expr=(
            f"{recent} > {number(s.ttft.regression)} * {baseline}"
            f"\nand {recent} - {baseline} > {number(s.ttft.least_increase_seconds)}"
            f"\nand {scope.request_rate} > {number(s.traffic.requests_per_second)}"
            f"\nunless {recent} <= {number(s.ttft.regression)} * {season}"
            f"\nunless {SAME_ENGINE} {ttft.ENGINE_VERSIONS} > 1"
        ),
        summary=(
            f"TTFT ({statistic}){of_tier} on {ENGINE} is {value('humanizeDuration')},"
            f" usually {recorded(baseline, 'humanizeDuration', labels)}."
        ),
        action="See whether prompts grew, the hit share fell, or the same work became slower.",
    )


def _burn(s: Settings, speed: str, severity: Severity, windows: tuple[str, str], times: float, wait: str) -> Alert:
    long, short = windows
    limit = number(round(min(times * (1 - s.ttft.objective), 0.999), 6))
    return Alert(
        name=f"HiCacheTtftBudget{speed}Burn",
        area="ttft",
        severity=severity,
        board="hicache-ttft",
        wait=wait,
        expr=(
            f"{slo.slow_ratio(long)} > {limit}\nand {slo.slow_ratio(short)} > {limit}"
            f"\nand {OVERALL.request_rate} > {number(s.traffic.requests_per_second)}"
        ),
        summary=(
            f"{value('humanizePercentage')} of the requests of {ENGINE} waited over {s.ttft.target_seconds:g} s for the"
            f" first token in the last {long}; {1 - s.ttft.objective:.2%} are allowed."
        ),
        action="See the TTFT by serving tier, then the queue.",
    )
