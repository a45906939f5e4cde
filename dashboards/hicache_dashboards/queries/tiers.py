"""Which tier served the prompts, what the tiers hold, and what leaves them."""

from __future__ import annotations

from hicache_dashboards.queries import needs
from hicache_dashboards.queries.model import Query
from hicache_dashboards.queries.vocabulary import (
    RATE,
    add,
    each_increase,
    each_rate,
    first_of,
    highest,
    quantile,
    rate,
    share,
    share_now,
    total,
)
from hicache_exporter import names

HOST = {"tier": "host"}

_RECORDER_HITS, _ENGINE_HITS = names.HIT_TOKENS, names.ENGINE_CACHED_TOKENS
_COMPUTED_ENGINE = {"served_by": "computed"}


def _hits(*by: str, window: str = RATE, ago: str = "") -> str:
    """From the recorder, which counts once a request, at admission; without it, as the engine counts."""
    recorder, engine = (
        each_rate(_RECORDER_HITS, window=window, ago=ago),
        each_rate(_ENGINE_HITS, window=window, ago=ago),
    )
    return add(first_of(recorder, engine), *by)


def _prompts(*by: str, window: str = RATE, ago: str = "") -> str:
    recorder = each_rate(names.PROMPT_TOKENS, window=window, ago=ago)
    return add(first_of(recorder, each_rate(names.ENGINE_PROMPT_TOKENS, window=window, ago=ago)), *by)


HIT_RATE_NOW = Query(share_now(_hits(), _prompts()), "hit rate", instant=True)
TOKENS_SAVED = Query(
    add(first_of(each_increase(_RECORDER_HITS), each_increase(_ENGINE_HITS))), "tokens not computed", instant=True
)
SERVED_BY_TIER = Query(_hits("tier"), "{{tier}}")
COMPUTED = Query(
    add(first_of(each_rate(names.COMPUTED_TOKENS), each_rate(names.ENGINE_PREFILL_TOKENS, _COMPUTED_ENGINE))),
    "computed",
)
HIT_RATE_BY_TIER = Query(share(_hits("tier"), _prompts(), "ignoring (tier) group_left ()"), "{{tier}}")


def hit_rate(legend: str, ago: str = "") -> Query:
    """Over an hour, so that days can be compared."""
    expr = share(_hits(window="1h", ago=ago), _prompts(window="1h", ago=ago))
    return Query(expr, legend, optional=f"needs a history of {ago}" if ago else "")


def hit_rate_of_each_engine() -> Query:
    identity = ("instance", "engine")
    return Query(share(_hits(*identity), _prompts(*identity)), "{{engine}} ({{instance}})")


REQUESTS_BY_TIER = Query(rate(names.REQUESTS, "tier"), "{{tier}}", optional=needs.PLUGIN)
UNATTRIBUTED = Query(
    add(
        first_of(
            each_rate(_ENGINE_HITS, {"tier": "unattributed"}),
            each_rate(_RECORDER_HITS, {"tier": "unattributed"}),
        )
    ),
    "unattributed",
)
HIT_DIFFERENCE = Query(rate(names.HIT_DIFFERENCE, "kind"), "{{kind}}, by the recorder", optional=needs.PLUGIN)
HITS_RECORDER = Query(rate(names.HIT_TOKENS, "tier"), "{{tier}}, recorder, at admission", optional=needs.PLUGIN)
HITS_ENGINE = Query(rate(names.ENGINE_CACHED_TOKENS, "tier"), "{{tier}}, engine, at the end")
TIER_SEEN = Query(highest(names.ENGINE_TIER_SEEN, "tier"), "{{tier}}", instant=True)

CAPACITY = Query(total(names.ENGINE_CAPACITY, "tier"), "{{tier}} capacity")
USED = Query(total(names.ENGINE_USED, "tier"), "{{tier}} used")
EVICTABLE = Query(total(names.ENGINE_EVICTABLE), "device, cached and evictable")
FILL = Query(share(total(names.ENGINE_USED, "tier"), total(names.ENGINE_CAPACITY, "tier")), "{{tier}}")
L2_TO_L1 = Query(
    share_now(total(names.ENGINE_CAPACITY, matchers=HOST), total(names.ENGINE_CAPACITY, matchers={"tier": "device"})),
    "L2 ÷ L1",
    instant=True,
)
POOL_FILL = Query(
    share(total(names.ENGINE_POOL_USED, "tier", "pool"), total(names.ENGINE_POOL_CAPACITY, "tier", "pool")),
    "{{tier}} {{pool}}",
    optional=needs.POOLS,
)
POOL_CAPACITY = Query(
    total(names.ENGINE_POOL_CAPACITY, "tier", "pool"), "{{tier}} {{pool}} capacity", optional=needs.POOLS
)
POOL_EVICTABLE = Query(total(names.ENGINE_POOL_EVICTABLE, "pool"), "device {{pool}} evictable", optional=needs.POOLS)
POOL_USED = Query(total(names.ENGINE_POOL_USED, "tier", "pool"), "{{tier}} {{pool}} used", optional=needs.POOLS)

EVICTED_BY_CAUSE = Query(rate(names.EVICTED_TOKENS, "cause"), "{{cause}}", optional=needs.PLUGIN)
EVICTED_ENGINE = Query(rate(names.ENGINE_EVICTED_TOKENS), "left L1, as the engine counts")
DROPPED_BY_REASON = Query(rate(names.ENGINE_DROPPED_TOKENS, "reason"), "{{reason}}", optional=needs.BYTE_COUNTERS)
BACKUPS_REFUSED = Query(rate(names.BACKUPS_REFUSED), "refused", optional=needs.PLUGIN)


def lifetime(q: float) -> Query:
    return Query(quantile(q, names.L2_LIFETIME), f"lifetime p{q * 100:g}", optional=needs.PRESSURE)


def reuse_gap(q: float) -> Query:
    return Query(quantile(q, names.L2_REUSE_GAP), f"reuse gap p{q * 100:g}", optional=needs.PLUGIN)


LIFETIME_HEATMAP = Query(rate(names.L2_LIFETIME, "le", part="bucket"), "{{le}}", buckets=True, optional=needs.PRESSURE)
REUSE_HEATMAP = Query(rate(names.L2_REUSE_GAP, "le", part="bucket"), "{{le}}", buckets=True, optional=needs.PLUGIN)
