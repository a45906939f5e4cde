"""L3: what storage had, what was fetched, what was not, and what was written."""

from __future__ import annotations

from hicache_dashboards.queries import needs
from hicache_dashboards.queries.model import Query
from hicache_dashboards.queries.vocabulary import mean, quantile, rate, share, share_now
from hicache_exporter import names

STORAGE = {"tier": "storage"}

HIT = Query(rate(names.ENGINE_STORAGE_HIT_TOKENS), "found in L3", optional=needs.L3)
PREFETCHED = Query(rate(names.ENGINE_STORAGE_PREFETCHED_TOKENS), "moved to L2", optional=needs.L3)
SERVED = Query(rate(names.HIT_TOKENS, matchers=STORAGE), "served to requests, recorder", optional=needs.L3)
SERVED_ENGINE = Query(
    rate(names.ENGINE_CACHED_TOKENS, matchers=STORAGE), "served to requests, engine", optional=needs.L3
)
UNFULFILLED = Query(rate(names.ENGINE_STORAGE_UNFULFILLED_TOKENS, "reason"), "{{reason}}", optional=needs.L3)
DEFERRED = Query(rate(names.ENGINE_STORAGE_DEFERRED_TOKENS, "reason"), "{{reason}}", optional=needs.L3)
BACKED_UP = Query(rate(names.ENGINE_STORAGE_BACKUP_TOKENS), "written to L3", optional=needs.L3)
BACKUP_DROPPED = Query(rate(names.ENGINE_STORAGE_BACKUP_DROPPED_TOKENS), "never reached L3", optional=needs.L3)
SHARE_OF_PROMPT = Query(
    share(rate(names.ENGINE_CACHED_TOKENS, matchers=STORAGE), rate(names.ENGINE_PROMPT_TOKENS)),
    "served by storage",
    optional=needs.L3,
)
PREFETCH_YIELD = Query(
    share_now(
        rate(names.ENGINE_STORAGE_PREFETCHED_TOKENS, window="1h"), rate(names.ENGINE_STORAGE_HIT_TOKENS, window="1h")
    ),
    "fetched ÷ found",
    instant=True,
    optional=needs.L3,
)
TTFT_MEAN = Query(mean(names.TTFT, matchers=STORAGE), "mean", optional=needs.L3)
TTFT_P95 = Query(quantile(0.95, names.TTFT, matchers=STORAGE), "p95", exemplars=True, optional=needs.L3)
TTFT_COLD = Query(mean(names.TTFT, matchers={"tier": "none"}), "cold, mean", optional=needs.PLUGIN)
