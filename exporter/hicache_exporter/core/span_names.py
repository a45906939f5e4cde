"""Span and attribute names, once. Everything that is ours lies under ``sglang.hicache.``."""

from __future__ import annotations

SCOPE = "hicache_tracing"
SCHEMA_URL = "https://opentelemetry.io/schemas/1.44.0"

REQUEST = "kv_cache.request"
LOOKUP = "kv_cache.lookup"
HIT = "kv_cache.hit {tier}"
TRANSFER = "kv_cache.transfer {direction}"
EVICT = "kv_cache.evict {tier}"

REQUEST_ID = "sglang.request.id"
TP_RANK = "sglang.tp.rank"
PP_RANK = "sglang.pp.rank"
DP_RANK = "sglang.dp.rank"

OPERATION = "sglang.hicache.operation.name"
TIER = "sglang.hicache.tier"
SOURCE_TIER = "sglang.hicache.transfer.source_tier"
DESTINATION_TIER = "sglang.hicache.transfer.destination_tier"
TRANSFER_SIZE = "sglang.hicache.transfer.size"  # bytes
TRANSFER_TOKENS = "sglang.hicache.transfer.tokens"
PROMPT_TOKENS = "sglang.hicache.prompt_tokens"
HIT_TOKENS = "sglang.hicache.hit_tokens"
PAGES = "sglang.hicache.pages"
PAGE_SIZE = "sglang.hicache.page_size"  # tokens
WAIT_TIME = "sglang.hicache.wait_time"  # seconds
OUTCOME = "sglang.hicache.outcome"
REQUEST_COUNT = "sglang.hicache.batch.request_count"
EVICTED_TOKENS = "sglang.hicache.evicted_tokens"
BASIS = "sglang.hicache.basis"  # measured: a transfer was seen; claimed: the engine's attribution only
VERDICT = "sglang.hicache.verdict"
CONTENT = "sglang.hicache.content"
SERVED_BY = "sglang.hicache.served_by"

MODEL = "gen_ai.request.model"
INPUT_TOKENS = "gen_ai.usage.input_tokens"
CACHE_READ_TOKENS = "gen_ai.usage.cache_read.input_tokens"
