"""Is the cache hit as it used to be?"""

from __future__ import annotations

from hicache_dashboards.alerts.model import Alert, Severity
from hicache_dashboards.alerts.template import ENGINE, recorded, value
from hicache_dashboards.config import Settings
from hicache_dashboards.promql import number, ratio
from hicache_dashboards.rules import slo, tiers
from hicache_dashboards.rules.expressions import either, rate
from hicache_exporter import names


def alerts(settings: Settings) -> list[Alert]:
    b, w = settings.burn, settings.windows
    return [
        _dropped(settings),
        _burn(settings, "Fast", "warning", (b.fast_long, b.fast_short), b.fast_rate, w.brief),
        _burn(settings, "Slow", "info", (b.slow_long, b.slow_short), b.slow_rate, w.sustained),
        _unattributed(settings),
    ]


def _dropped(s: Settings) -> Alert:
    """Now and over the trend window, against the day before and, where known, the same hour last week."""
    kept = number(round(1 - s.hit_rate.drop, 4))
    return Alert(
        name="HiCacheHitRateDropped",
        area="hits",
        severity="warning",
        board="hicache-tiers",
        wait=s.windows.sustained,
        expr=(
            f"{tiers.HIT_RATIO_RECENT} < {kept} * {tiers.HIT_RATIO_BASELINE}"
            f"\nand {tiers.HIT_RATIO_TREND} < {kept} * {tiers.HIT_RATIO_BASELINE}"
            f"\nand {tiers.PROMPT_RATE_TREND} > {number(s.traffic.prompt_tokens_per_second)}"
            f"\nunless {tiers.HIT_RATIO_RECENT} >= {kept} * {tiers.HIT_RATIO_SEASON}"
        ),
        summary=(
            f"Hit rate of {ENGINE} is {value('humanizePercentage')},"
            f" usually {recorded(tiers.HIT_RATIO_BASELINE, 'humanizePercentage')}."
        ),
        action="See which tier lost its share, then whether the prompts or the cache changed.",
    )


def _burn(s: Settings, speed: str, severity: Severity, windows: tuple[str, str], times: float, wait: str) -> Alert:
    long, short = windows
    limit = number(round(min(times * (1 - s.hit_rate.objective), 0.999), 6))
    return Alert(
        name=f"HiCacheHitRateBudget{speed}Burn",
        area="hits",
        severity=severity,
        board="hicache-tiers",
        wait=wait,
        expr=(
            f"{slo.low_ratio(long)} > {limit}\nand {slo.low_ratio(short)} > {limit}"
            f"\nand {tiers.PROMPT_RATE_TREND} > {number(s.traffic.prompt_tokens_per_second)}"
        ),
        summary=(
            f"Hit rate of {ENGINE} was under {s.hit_rate.floor:.0%} in {value('humanizePercentage')}"
            f" of the served minutes of the last {long}; {1 - s.hit_rate.objective:.0%} are allowed."
        ),
        action="Compare the hit share per tier before and after the drop.",
    )


def _unattributed(s: Settings) -> Alert:
    matchers = {"tier": "unattributed"}
    unattributed = either(
        rate(names.ENGINE_CACHED_TOKENS, s.windows.recent, matchers=matchers),
        rate(names.HIT_TOKENS, s.windows.recent, matchers=matchers),
    )
    return Alert(
        name="HiCacheTokensUnattributed",
        area="hits",
        severity="warning",
        board="hicache-tiers",
        wait=s.windows.sustained,
        expr=f"{ratio(f'({unattributed})', tiers.PROMPT_RATE_RECENT)} > 0",
        summary=f"{value('humanizePercentage')} of the prompt tokens of {ENGINE} came from a tier that nobody names.",
        action="Check whether several tokenizer workers run: they lose the split by tier.",
    )
