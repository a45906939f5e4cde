from __future__ import annotations

from hicache_dashboards.boards import traces
from hicache_dashboards.boards.model import Board, Panel, Row, Step
from hicache_dashboards.config import Settings
from hicache_dashboards.palette import BAD, WARN
from hicache_dashboards.queries import l2, ttft


def board(settings: Settings) -> Board:
    return Board(
        "hicache-ttft",
        "HiCache: time to first token",
        "TTFT by the tier that served the prefix, against its own past and against its objective.",
        (_by_tier(), _past(settings), _objective(settings), _parts()),
    )


def _by_tier() -> Row:
    return Row(
        "By serving tier",
        (
            Panel(
                "Median TTFT",
                "device under host under storage under none, or the tier does not pay.",
                "s",
                (ttft.by_tier(0.5),),
                span=12,
                traced=traces.ANY_HIT,
            ),
            Panel(
                "95th percentile of TTFT",
                "A tail on host with a good median: load-backs that wait.",
                "s",
                (ttft.by_tier(0.95),),
                span=12,
                alerts=("HiCacheTierTtftRegressed",),
                traced=traces.ANY_HIT,
            ),
            Panel(
                "All requests",
                "Each cell counts requests; the points are exemplars and open the trace.",
                "s",
                (ttft.HEATMAP,),
                kind="heatmap",
                span=12,
                traced=traces.ANY_HIT,
            ),
            Panel(
                "Requests served by L2",
                "Two bands mean that some load-backs wait for others.",
                "s",
                (ttft.HEATMAP_HOST,),
                kind="heatmap",
                span=12,
                traced=traces.hit("host"),
            ),
            Panel("Median over the time range", "One bar a tier.", "s", (ttft.by_tier_now(0.5),), kind="bars", span=6),
            Panel("95th over the time range", "One bar a tier.", "s", (ttft.by_tier_now(0.95),), kind="bars", span=6),
            Panel(
                "Requests", "How many stand behind each tier.", "reqps", (ttft.REQUESTS_BY_TIER,), kind="stack", span=12
            ),
        ),
    )


def _past(settings: Settings) -> Row:
    slower = (Step(settings.ttft.regression, BAD, "a regression"),)
    return Row(
        "Against its own past",
        (
            Panel(
                "Mean, now and before",
                "Over an hour each, all requests, as the engine measures it.",
                "s",
                (
                    ttft.regression("mean", "now"),
                    ttft.regression("mean", "a day ago", "1d"),
                    ttft.regression("mean", "the same hour last week", "1w"),
                ),
                alerts=("HiCacheTtftRegressed",),
            ),
            Panel(
                "95th percentile, now and before",
                "From the same buckets of the same engine: quantiles of different histograms are never compared.",
                "s",
                (
                    ttft.regression("p95", "now"),
                    ttft.regression("p95", "a day ago", "1d"),
                    ttft.regression("p95", "the same hour last week", "1w"),
                ),
                alerts=("HiCacheTtftRegressed",),
            ),
            Panel(
                "Times slower than before",
                "Mean of the last hour over that of the hour before.",
                "si:x",
                (ttft.times_slower("1d", "than a day ago"), ttft.times_slower("1w", "than last week")),
                steps=slower,
                alerts=("HiCacheTtftRegressed",),
            ),
        ),
    )


def _objective(settings: Settings) -> Row:
    target, allowed = settings.ttft.target_seconds, 1 - settings.ttft.objective
    burn = settings.burn
    return Row(
        f"Objective: {settings.ttft.objective:.2%} of the requests within {target:g} s",
        (
            Panel(
                "Share of slow requests",
                f"{allowed:.2%} are allowed.",
                "percentunit",
                (ttft.slow_share(settings),),
                span=12,
                steps=(Step(round(allowed, 6), WARN, "over what the objective allows"),),
                alerts=("HiCacheTtftBudgetFastBurn", "HiCacheTtftBudgetSlowBurn"),
            ),
            Panel(
                "Burn rate",
                "1 spends the budget exactly. An alert fires if a long and a short window both burn.",
                "si:x",
                tuple(
                    ttft.burn_rate(settings, window)
                    for window in dict.fromkeys((burn.fast_short, burn.fast_long, burn.slow_short, burn.slow_long))
                ),
                span=12,
                steps=(
                    Step(burn.slow_rate, WARN, f"slow burn, over {burn.slow_long}"),
                    Step(burn.fast_rate, BAD, f"fast burn, over {burn.fast_long}"),
                ),
                alerts=("HiCacheTtftBudgetFastBurn", "HiCacheTtftBudgetSlowBurn"),
            ),
        ),
    )


def _parts() -> Row:
    return Row(
        "What it is made of",
        (
            Panel(
                "Engine, scheduler and queue",
                "The engine's clock starts in the tokenizer, the recorder's in the scheduler.",
                "s",
                (ttft.ENGINE_MEAN, ttft.RECORDER_MEAN, ttft.QUEUE_MEAN),
                span=12,
            ),
            Panel(
                "Load-back wait",
                "The part of an L2 hit that is spent waiting for the copy.",
                "s",
                (l2.wait(0.5), l2.wait(0.95)),
                span=12,
                traced=traces.hit("host"),
            ),
        ),
    )
