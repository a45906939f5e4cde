from __future__ import annotations

from hicache_dashboards.boards import traces
from hicache_dashboards.boards.model import Board, Panel, Row, State, Step
from hicache_dashboards.boards.steps import BELOW, UP_DOWN, enough, none_is_good
from hicache_dashboards.config import Settings
from hicache_dashboards.palette import BAD, GOOD, NEUTRAL, WARN
from hicache_dashboards.queries import fleet, l2, proof, tiers, ttft


def board(settings: Settings) -> Board:
    return Board(
        "hicache-overview",
        "HiCache: overview",
        "Is HiCache paying? Which tier serves the prompts, what that saves, and whether L2 works.",
        (_verdict(settings), _prompts(), _time(), _flow()),
    )


def _verdict(settings: Settings) -> Row:
    floor = settings.hit_rate.floor
    return Row(
        "Is it paying?",
        (
            Panel(
                "Hit rate",
                "Share of the prompt tokens that some tier served instead of computing them, from counters.",
                "percentunit",
                (tiers.HIT_RATE_NOW,),
                kind="stat",
                span=4,
                height=5,
                steps=enough(floor, "the cache hardly helps"),
                alerts=("HiCacheHitRateDropped",),
            ),
            Panel(
                "Tokens not computed",
                "Prompt tokens that a tier served, over the time range: what the cache has saved.",
                "short",
                (tiers.TOKENS_SAVED,),
                kind="stat",
                span=4,
                height=5,
            ),
            Panel(
                "L2",
                "The host tier over the last hour.",
                "none",
                (l2.HEALTH,),
                kind="stat",
                span=4,
                height=5,
                states=(
                    State(2, "read", GOOD),
                    State(1, "idle", NEUTRAL),
                    State(0, "written, never read", BAD),
                ),
                alerts=("HiCacheL2Inert",),
            ),
            Panel(
                "Cold against L2 hit",
                "Mean TTFT of requests that no tier served, over that of L2 hits, in the last hour. Prompts differ, so"
                " it is a hint; `hicache-witness lab` measures it on the same prompt.",
                "si:x",
                (ttft.COLD_TO_HOST,),
                kind="stat",
                span=4,
                height=5,
                steps=(
                    Step(BELOW, BAD, "an L2 hit is slower than computing"),
                    Step(1, WARN, "an L2 hit gains little"),
                    Step(2, GOOD, "an L2 hit is at least twice as fast"),
                ),
            ),
            Panel(
                "L2 reads proven",
                "Of the requests with a claim on L2, those whose witnesses agree that it was read.",
                "percentunit",
                (proof.PROVEN_SHARE,),
                kind="stat",
                span=4,
                height=5,
                steps=enough(0.95, "see which witness is silent on the Proof board"),
                alerts=("HiCacheVerdictsContradicted",),
            ),
            Panel(
                "Damaged content",
                "Requests whose loaded KV pages differ from what was backed up, over the time range.",
                "none",
                (proof.DAMAGED,),
                kind="stat",
                span=4,
                height=5,
                steps=none_is_good("answers may be wrong"),
                alerts=("HiCacheContentDamaged",),
            ),
        ),
    )


def _prompts() -> Row:
    return Row(
        "Where the prompts came from",
        (
            Panel(
                "Prompt tokens by what served them",
                "Tokens a second: each tier, and what had to be computed.",
                "si:tok/s",
                (tiers.SERVED_BY_TIER, tiers.COMPUTED),
                kind="stack",
                span=12,
                traced=traces.ANY_HIT,
            ),
            Panel(
                "Hit rate against yesterday and last week",
                "Over an hour each. A gap means no traffic.",
                "percentunit",
                (tiers.hit_rate("now"), tiers.hit_rate("a day ago", "1d"), tiers.hit_rate("a week ago", "1w")),
                span=12,
                maximum=1,
                alerts=("HiCacheHitRateDropped", "HiCacheHitRateBudgetFastBurn"),
            ),
        ),
    )


def _time() -> Row:
    return Row(
        "What it does to the first token",
        (
            Panel(
                "Mean TTFT by serving tier",
                "From the scheduler receiving a request to its first token. Lower tiers must stay under cold requests.",
                "s",
                (ttft.MEAN_BY_TIER,),
                span=12,
                alerts=("HiCacheTierTtftRegressed",),
                traced=traces.ANY_HIT,
            ),
            Panel(
                "TTFT, all requests",
                "As the engine measures it.",
                "s",
                (ttft.overall(0.5), ttft.overall(0.95), ttft.ENGINE_MEAN),
                span=12,
                alerts=("HiCacheTtftRegressed", "HiCacheTtftBudgetFastBurn"),
            ),
        ),
    )


def _flow() -> Row:
    return Row(
        "L2 at a glance",
        (
            Panel(
                "Tokens in, out and back",
                "A working L2 shows all of it: tokens leave L1, were backed up before, and some come back.",
                "si:tok/s",
                (l2.BACKED_UP, l2.LOADED_BACK, l2.LEFT_L1, l2.LEFT_L2),
                span=12,
                alerts=("HiCacheL2Inert", "HiCacheL2LowYield"),
            ),
            Panel(
                "How full the tiers are",
                "Used share. A full L2 is a warm cache; L1 counts only what requests hold now.",
                "percentunit",
                (tiers.FILL,),
                span=6,
                maximum=1,
                alerts=("HiCacheHostPoolExhausted",),
            ),
            Panel("Engines", "Is its /metrics read?", "none", (fleet.UP,), kind="states", span=6, states=UP_DOWN),
        ),
    )
