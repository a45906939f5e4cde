from __future__ import annotations

from hicache_dashboards.boards.model import Board, Panel, Row, Step
from hicache_dashboards.boards.steps import BELOW, none_is_good
from hicache_dashboards.config import Settings
from hicache_dashboards.palette import BAD, GOOD
from hicache_dashboards.queries import l2, tiers


def board(settings: Settings) -> Board:
    return Board(
        "hicache-tiers",
        "HiCache: tiers",
        "What each tier holds, what it serves, what leaves it and when.",
        (_hits(), _capacity(settings), _evictions(), _age()),
    )


def _hits() -> Row:
    return Row(
        "Hits",
        (
            Panel(
                "Hit rate by tier",
                "Share of the prompt tokens that each tier served.",
                "percentunit",
                (tiers.HIT_RATE_BY_TIER,),
                kind="stack",
                span=12,
                maximum=1,
                alerts=("HiCacheHitRateDropped", "HiCacheHitRateBudgetSlowBurn"),
            ),
            Panel(
                "Requests by the tier that served their prefix",
                "mixed: more than one tier; none: computed from the first token on.",
                "reqps",
                (tiers.REQUESTS_BY_TIER,),
                kind="stack",
                span=12,
            ),
            Panel(
                "Two countings of the same hits",
                "The recorder counts at admission, once a request; the engine when a request ends. Over time they"
                " agree; a lasting gap between them is a finding.",
                "si:tok/s",
                (tiers.HITS_RECORDER, tiers.HITS_ENGINE),
                span=12,
                alerts=("HiCacheVerdictsContradicted",),
            ),
            Panel(
                "Tokens that no tier answers for",
                "Cached tokens whose tier the engine does not name, and by the recorder what the sum of the tiers lacks"
                " (unplaced) or has too much (surplus). They are never added to a tier.",
                "si:tok/s",
                (tiers.UNATTRIBUTED, tiers.HIT_DIFFERENCE),
                span=6,
                alerts=("HiCacheTokensUnattributed",),
            ),
            Panel(
                "Tiers that the engine has reported",
                "0: the sidecar's own zero stands in until the first hit.",
                "none",
                (tiers.TIER_SEEN,),
                kind="stat",
                span=6,
            ),
        ),
    )


def _capacity(settings: Settings) -> Row:
    return Row(
        "Capacity and residency",
        (
            Panel("Tokens in each tier", "Used part and size.", "short", (tiers.USED, tiers.CAPACITY), span=12),
            Panel(
                "How full each tier is",
                "A full L2 that takes every backup is a warm cache.",
                "percentunit",
                (tiers.FILL,),
                span=6,
                maximum=1,
                steps=(Step(settings.l2.pool_full, BAD, "full: see whether backups are refused"),),
                alerts=("HiCacheHostPoolExhausted",),
            ),
            Panel(
                "L2 against L1",
                "Size of the host pool over that of the device pool.",
                "si:x",
                (tiers.L2_TO_L1,),
                kind="stat",
                span=6,
                steps=(
                    Step(BELOW, BAD, "L2 is smaller than L1: it can't hold what L1 evicts"),
                    Step(1, GOOD, "L2 holds at least one L1"),
                ),
            ),
            Panel("Cached in L1 and evictable", "Tokens that L1 may give up.", "short", (tiers.EVICTABLE,), span=8),
            Panel(
                "Pools beside the KV pool, fill",
                "Sliding-window and state-space models keep more than one pool; the smallest decides.",
                "percentunit",
                (tiers.POOL_FILL,),
                span=8,
                maximum=1,
            ),
            Panel(
                "Pools beside the KV pool, slots",
                "Used, evictable in L1, and size.",
                "short",
                (tiers.POOL_USED, tiers.POOL_EVICTABLE, tiers.POOL_CAPACITY),
            ),
        ),
    )


def _evictions() -> Row:
    return Row(
        "Evictions",
        (
            Panel(
                "Tokens leaving a tier, by cause",
                "demoted: left L1 with a copy in L2; dropped: left L1 with none; host_evicted: left L2.",
                "si:tok/s",
                (tiers.EVICTED_BY_CAUSE,),
                span=8,
                alerts=("HiCacheKvDestroyedWithoutBackup", "HiCacheL2Thrashing"),
            ),
            Panel(
                "Destroyed in L1, by the engine's reason",
                "Tokens that left L1 with no copy in L2, beside all that left it.",
                "si:tok/s",
                (tiers.DROPPED_BY_REASON, tiers.EVICTED_ENGINE),
                span=8,
                alerts=("HiCacheKvDestroyedWithoutBackup",),
            ),
            Panel(
                "Backups refused",
                "For lack of room in the host pool.",
                "si:/s",
                (tiers.BACKUPS_REFUSED,),
                span=4,
                alerts=("HiCacheHostPoolExhausted",),
            ),
            Panel(
                "Cache resets", "Flushes.", "none", (l2.RESETS,), span=4, steps=none_is_good("the cache starts cold")
            ),
        ),
    )


def _age() -> Row:
    return Row(
        "How long L2 keeps a page, and how long until it is read",
        (
            Panel(
                "Lifetime and reuse gap",
                "L2 pays while pages live longer than the gap between writing and reading them.",
                "s",
                (tiers.lifetime(0.5), tiers.lifetime(0.1), tiers.reuse_gap(0.5), tiers.reuse_gap(0.9)),
                span=8,
                alerts=("HiCacheL2LowYield", "HiCacheL2Thrashing"),
            ),
            Panel("Lifetime in L2", "Seconds from backup to eviction.", "s", (tiers.LIFETIME_HEATMAP,), kind="heatmap"),
            Panel("Reuse gap", "Seconds from backup to load-back.", "s", (tiers.REUSE_HEATMAP,), kind="heatmap"),
        ),
    )
