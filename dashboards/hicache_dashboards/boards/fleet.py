from __future__ import annotations

from hicache_dashboards.boards.model import Board, Panel, Row, Step
from hicache_dashboards.boards.steps import BELOW, UP_DOWN, UP_DOWN_STEPS, none_is_good
from hicache_dashboards.config import Settings
from hicache_dashboards.palette import BAD, GOOD
from hicache_dashboards.queries import fleet


def board(settings: Settings) -> Board:
    return Board(
        "hicache-fleet",
        "HiCache: fleet",
        "All engines and sidecars: who is up, who is whole, who stands out.",
        (_who(), _outliers(settings), _whole(), _sidecars()),
    )


def _who() -> Row:
    return Row(
        "Who is there",
        (
            Panel("Engines watched", "Up or not.", "none", (fleet.ENGINES_KNOWN,), kind="stat", span=3),
            Panel(
                "Engines up",
                "Their metrics were read in the last scrape.",
                "none",
                (fleet.ENGINES_UP,),
                kind="stat",
                span=3,
                steps=(Step(BELOW, BAD, "none is up"), Step(1, GOOD, "compare with the number watched")),
                alerts=("HiCacheEngineDown",),
            ),
            Panel(
                "Engines over time",
                "Down means that /metrics could not be read.",
                "none",
                (fleet.UP,),
                kind="states",
                span=9,
                states=UP_DOWN,
                steps=UP_DOWN_STEPS,
                alerts=("HiCacheEngineDown",),
            ),
            Panel(
                "Sidecars over time",
                "As Prometheus sees them.",
                "none",
                (fleet.SIDECARS_UP,),
                kind="states",
                span=9,
                states=UP_DOWN,
                steps=UP_DOWN_STEPS,
                alerts=("HiCacheSidecarDown", "HiCacheSidecarAbsent"),
            ),
            Panel("Engines", "Version, model, policy, ranks.", "none", (fleet.ENGINES,), kind="table", span=14),
            Panel("Alerts firing", "Now.", "none", (fleet.ALERTS_FIRING,), kind="table", span=10),
        ),
    )


def _outliers(settings: Settings) -> Row:
    return Row(
        "Who stands out",
        (
            Panel(
                "Hit rate of each engine",
                "The one that differs is the one to look at.",
                "percentunit",
                (fleet.HIT_RATE,),
                maximum=1,
                alerts=("HiCacheHitRateDropped",),
            ),
            Panel(
                "95th percentile of TTFT of each engine",
                "As the engine measures it.",
                "s",
                (fleet.TTFT_P95,),
                steps=(Step(settings.ttft.target_seconds, BAD, "over the objective's target"),),
                alerts=("HiCacheTtftRegressed",),
            ),
            Panel("Mean TTFT of each engine", "As the engine measures it.", "s", (fleet.TTFT_MEAN,)),
            Panel("Prompt tokens", "Load on each engine.", "si:tok/s", (fleet.PROMPT_RATE,)),
            Panel("Requests", "Running and waiting.", "none", (fleet.RUNNING, fleet.QUEUED)),
            Panel(
                "Tokens generated", "By each engine.", "si:tok/s", (fleet.GENERATED,), alerts=("HiCacheEngineStalled",)
            ),
            Panel("Requests finished", "By each engine.", "reqps", (fleet.FINISHED,)),
            Panel("Time in the queue", "Mean.", "s", (fleet.QUEUE,)),
            Panel(
                "Configuration known",
                "Is /server_info read? Without it the counters of several ranks can't be combined.",
                "none",
                (fleet.INFO_READ,),
                kind="states",
                states=UP_DOWN,
                steps=UP_DOWN_STEPS,
            ),
        ),
    )


def _whole() -> Row:
    return Row(
        "Who is whole",
        (
            Panel(
                "Ranks",
                "Expected from the engine's configuration, and seen.",
                "none",
                (fleet.RANKS_EXPECTED, fleet.RANKS_SEEN),
                span=6,
                alerts=("HiCacheRanksMissing",),
            ),
            Panel(
                "How counters of ranks were combined",
                "one_rank: they repeat the same number; divided: the engine had added them up; summed: they add up."
                " The value is the number of ranks.",
                "none",
                (fleet.RANK_BASIS,),
                kind="table",
                span=9,
            ),
            Panel(
                "Expected of the engine and missing",
                "With the flag that would bring it.",
                "none",
                (fleet.FAMILIES_MISSING,),
                kind="table",
                span=9,
                alerts=("HiCacheEngineFamilyMissing",),
            ),
            Panel(
                "Restarts, and counters that fell without one",
                "A fall without a restart is an anomaly; the last value is held.",
                "none",
                (fleet.RESTARTS, fleet.BACKWARD_STEPS),
                span=8,
            ),
            Panel("Reads of the engine", "Time that each took.", "s", (fleet.SCRAPE_SECONDS,), span=8),
            Panel(
                "Failed reads and unreadable lines",
                "By reason.",
                "none",
                (fleet.SCRAPE_FAILURES, fleet.UNREADABLE),
                span=8,
                steps=none_is_good("see the reason"),
                alerts=("HiCacheEngineDown",),
            ),
        ),
    )


def _sidecars() -> Row:
    return Row(
        "The sidecars themselves",
        (
            Panel(
                "Collectors",
                "A failing one costs only its own series.",
                "none",
                (fleet.COLLECTORS,),
                kind="states",
                span=8,
                states=UP_DOWN,
                steps=UP_DOWN_STEPS,
                alerts=("HiCacheCollectorFailing",),
            ),
            Panel("Time in collectors", "The slowest sidecar's.", "s", (fleet.COLLECTOR_SECONDS,), span=8),
            Panel("Scrapes refused", "Too many at once.", "none", (fleet.SCRAPES_REFUSED,), span=4),
            Panel(
                "Targets file",
                "1: read; 0: the last good list stands in.",
                "none",
                (fleet.TARGETS_FILE,),
                kind="stat",
                span=4,
            ),
            Panel("Sidecars", "Version and Python.", "none", (fleet.SIDECARS,), kind="table", span=24, height=6),
        ),
    )
