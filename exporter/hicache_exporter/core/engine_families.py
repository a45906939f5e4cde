"""Which engine metric becomes which family of ours: one row each, through SGLang 0.5.9 to 0.5.23.

Rows of one family and one fixed label set are alternatives; the first that the engine has wins.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum

from hicache_exporter import names
from hicache_exporter.core import engine_trees as trees
from hicache_exporter.core.engine_info import Version
from hicache_exporter.core.engine_text import spellings
from hicache_exporter.names import Family

UNATTRIBUTED = "unattributed"
OTHER = "other"


class Ranks(Enum):
    """What the ranks' numbers are to each other."""

    REPEAT = "every rank counts the same logical tokens"
    SHARE = "every rank counts its own part"


class Needs(Enum):
    """What must be switched on in the engine; the value is the flag that does it."""

    METRICS = "--enable-metrics"
    HICACHE = "--enable-hierarchical-cache"
    STORAGE = "--hicache-storage-backend"
    HYBRID = "a hybrid model"
    """Only models with such a pool have it: never missed."""


@dataclass(frozen=True, slots=True)
class Split:
    """One engine label that becomes one of ours."""

    engine: str
    ours: str
    value: Callable[[str], str | None]
    """Maps a value of the engine to one of a fixed set; None: not part of the family."""
    zeros: tuple[str, ...] = ()
    """Values that start at 0 before the engine has used them."""


@dataclass(frozen=True, slots=True)
class Dated:
    """A label of ours that tells which of two meanings a metric had: the engine kept the name and changed the sense."""

    label: str
    release: Version
    before: str
    since: str

    def value(self, release: Version | None) -> str:
        if release is None:
            return "unknown"
        return self.since if release >= self.release else self.before


@dataclass(frozen=True, slots=True)
class Row:
    family: Family
    engine: str
    """Name of the engine's metric without prefix; histograms without _bucket, _sum, _count."""
    ranks: Ranks
    since: Version
    needs: Needs = Needs.METRICS
    labels: Mapping[str, str] = field(default_factory=dict)
    """Fixed labels of ours."""
    split: Split | None = None
    pool: str | None = None
    """Only this pool, or series without that label (before 0.5.18 the tokens of the KV pool were all there was)."""
    dated: Dated | None = None
    uncounted_before: Mapping[str, Version] = field(default_factory=dict)
    """Trees that do not count it in older releases than these: beside them its absence is not zero."""

    @property
    def group(self) -> tuple[str, tuple[tuple[str, str], ...]]:
        return self.family.name, tuple(sorted(self.labels.items()))

    @property
    def sample_names(self) -> tuple[str, ...]:
        if self.family.type == "histogram":
            return tuple(self.engine + suffix for suffix in ("_bucket", "_sum", "_count"))
        return (self.engine,)


def one_of(*known: str) -> Callable[[str], str]:
    return lambda value: value if value in known else OTHER


def tier_of(source: str) -> str:
    """``storage_<backend class>`` (up to 0.5.19) is storage. ``total`` and all unknown sources stay unattributed."""
    if source in ("device", "host"):
        return source
    return "storage" if source == "storage" or source.startswith("storage_") else UNATTRIBUTED


_MODES = {"device_hit": "device", "host_hit": "host", "storage_hit": "storage", "input": "computed"}
_OLD_MODES = {"prefill_cache": UNATTRIBUTED, "prefill_compute": "computed", "decode": None}
_POOLS = ("kv", "swa", "mamba", "auxiliary_swa", "indexer")
_DROPPED = ("host_pressure", "write_through_unbacked_eviction")
_UNFULFILLED = (
    "below_threshold",
    "host_capacity",
    "device_capacity",
    "device_covered",
    "storage_transfer",
    "deadline",
    "anchor_lost",
    "aux_window_trim",
    "device_overlap",
    "cache_admission_shortfall",
    "dropped",
)
_DEFERRED = ("host_capacity", "device_capacity")

# From these releases on such a model runs a tree that counts, or the tree itself does.
_LOAD_BACK: Mapping[str, Version] = dict.fromkeys((trees.UNIFIED, trees.HIMAMBA, trees.UNNAMED), (0, 5, 13))
_EVICTION: Mapping[str, Version] = {trees.HIMAMBA: (0, 5, 13), trees.UNNAMED: (0, 5, 13), trees.MAMBA: (0, 5, 16)}

FIRST: Version = (0, 5, 9)
"""Older engines are not supported; what they already had is as old as this here."""
R, S, N = Ranks.REPEAT, Ranks.SHARE, Needs


def _reason(*known: str) -> Split:
    return Split("reason", "reason", one_of(*known), known)


def _pool() -> Split:
    return Split("pool", "pool", one_of(*_POOLS), ("kv",))


def _side_pool(name: str) -> list[Row]:
    on_device = {"tier": "device", "pool": name}
    since = (0, 5, 12)
    return [
        Row(names.ENGINE_POOL_USED, f"{name}_used_tokens", R, since, N.HYBRID, on_device),
        Row(names.ENGINE_POOL_EVICTABLE, f"{name}_evictable_tokens", R, since, N.HYBRID, {"pool": name}),
    ]


ROWS: tuple[Row, ...] = (
    # -- the front end counts requests; no ranks
    Row(
        names.ENGINE_CACHED_TOKENS,
        "cached_tokens_total",
        S,
        FIRST,
        split=Split("cache_source", "tier", tier_of, ("device", "host", "storage")),
    ),
    Row(names.ENGINE_PROMPT_TOKENS, "prompt_tokens_total", S, FIRST),
    Row(names.ENGINE_GENERATION_TOKENS, "generation_tokens_total", S, FIRST),
    Row(names.ENGINE_FINISHED_REQUESTS, "num_requests_total", S, FIRST),
    Row(names.ENGINE_TTFT, "time_to_first_token_seconds", S, FIRST),
    # -- the scheduler
    Row(
        names.ENGINE_PREFILL_TOKENS,
        "prefill_effective_tokens_total",
        R,
        (0, 5, 18),
        split=Split("mode", "served_by", lambda mode: _MODES.get(mode, UNATTRIBUTED), tuple(_MODES.values())),
    ),
    Row(
        names.ENGINE_PREFILL_TOKENS,
        "realtime_tokens_total",
        R,
        FIRST,
        split=Split("mode", "served_by", lambda mode: _OLD_MODES.get(mode, UNATTRIBUTED), (UNATTRIBUTED, "computed")),
    ),
    Row(names.ENGINE_CAPACITY, "max_total_num_tokens", R, FIRST, labels={"tier": "device"}),
    Row(names.ENGINE_CAPACITY, "hicache_host_total_tokens", R, (0, 5, 10), N.HICACHE, {"tier": "host"}),
    Row(names.ENGINE_USED, "kv_used_tokens", R, (0, 5, 11), labels={"tier": "device"}),
    Row(names.ENGINE_USED, "num_used_tokens", R, FIRST, labels={"tier": "device"}),
    Row(names.ENGINE_USED, "hicache_host_used_tokens", R, (0, 5, 10), N.HICACHE, {"tier": "host"}),
    Row(names.ENGINE_EVICTABLE, "kv_evictable_tokens", R, (0, 5, 11)),
    Row(names.ENGINE_RUNNING, "num_running_reqs", R, FIRST),
    Row(names.ENGINE_QUEUED, "num_queue_reqs", R, FIRST),
    Row(names.ENGINE_QUEUE_SECONDS, "queue_time_seconds", R, FIRST),
    *_side_pool("swa"),
    *_side_pool("mamba"),
    Row(
        names.ENGINE_POOL_CAPACITY,
        "max_total_num_tokens_swa",
        R,
        (0, 5, 17),
        N.HYBRID,
        {"tier": "device", "pool": "swa"},
    ),
    Row(
        names.ENGINE_POOL_CAPACITY,
        "hicache_host_mamba_total_states",
        R,
        (0, 5, 23),
        N.HYBRID,
        {"tier": "host", "pool": "mamba"},
    ),
    Row(
        names.ENGINE_POOL_USED,
        "hicache_host_mamba_used_states",
        R,
        (0, 5, 23),
        N.HYBRID,
        {"tier": "host", "pool": "mamba"},
    ),
    # -- the tree: summed over ranks, without a rank label, up to 0.5.20
    Row(names.ENGINE_EVICTED_TOKENS, "evicted_tokens_total", R, FIRST, uncounted_before=_EVICTION),
    Row(
        names.ENGINE_LOAD_BACK_TOKENS,
        "load_back_tokens_total",
        R,
        FIRST,
        N.HICACHE,
        pool="kv",
        uncounted_before=_LOAD_BACK,
    ),
    Row(
        names.ENGINE_POOL_LOAD_BACK,
        "load_back_tokens_total",
        R,
        FIRST,
        N.HICACHE,
        split=_pool(),
        uncounted_before=_LOAD_BACK,
    ),
    Row(names.ENGINE_LOAD_BACK_BYTES, "load_back_bytes_total", S, (0, 5, 18), N.HICACHE),
    Row(
        names.ENGINE_LOAD_BACK_SECONDS,
        "load_back_duration_seconds",
        R,
        FIRST,
        N.HICACHE,
        dated=Dated("clock", (0, 5, 16), "host", "device"),
        uncounted_before=_LOAD_BACK,
    ),
    Row(names.ENGINE_BACKUP_TOKENS, "hicache_backup_tokens_total", R, (0, 5, 18), N.HICACHE, pool="kv"),
    Row(names.ENGINE_POOL_BACKUP, "hicache_backup_tokens_total", R, (0, 5, 18), N.HICACHE, split=_pool()),
    Row(names.ENGINE_BACKUP_BYTES, "hicache_backup_bytes_total", S, (0, 5, 18), N.HICACHE),
    Row(names.ENGINE_BACKUP_SECONDS, "hicache_backup_duration_seconds", R, (0, 5, 18), N.HICACHE),
    Row(
        names.ENGINE_DROPPED_TOKENS,
        "hicache_dropped_tokens_total",
        R,
        (0, 5, 18),
        N.HICACHE,
        split=_reason(*_DROPPED),
        pool="kv",
    ),
    # -- L3 storage
    Row(names.ENGINE_STORAGE_PREFETCHED_TOKENS, "prefetched_tokens_total", R, FIRST, N.STORAGE),
    Row(names.ENGINE_STORAGE_BACKUP_TOKENS, "backuped_tokens_total", R, FIRST, N.STORAGE),
    Row(names.ENGINE_STORAGE_HIT_TOKENS, "storage_prefetch_hit_tokens_total", R, (0, 5, 20), N.STORAGE),
    Row(
        names.ENGINE_STORAGE_UNFULFILLED_TOKENS,
        "storage_prefetch_unfulfilled_tokens_total",
        R,
        (0, 5, 20),
        N.STORAGE,
        split=_reason(*_UNFULFILLED),
    ),
    Row(
        names.ENGINE_STORAGE_DEFERRED_TOKENS,
        "storage_prefetch_deferred_tokens_total",
        R,
        (0, 5, 20),
        N.STORAGE,
        split=_reason(*_DEFERRED),
    ),
    Row(
        names.ENGINE_STORAGE_BACKUP_DROPPED_TOKENS,
        "hicache_backup_dropped_tokens_total",
        R,
        (0, 5, 19),
        N.STORAGE,
    ),
)

# Not families of ours: they tell one run of the engine from the next.
STARTUP = "startup_time_seconds"
PID_BEARER = "num_retracted_reqs"
PROCESS_START = "process_start_time_seconds"

WANTED: Mapping[str, str] = {
    **spellings(dict.fromkeys(name for row in ROWS for name in row.sample_names)),
    **spellings((STARTUP, PID_BEARER, *trees.MAMBA_MARKS)),
    PROCESS_START: PROCESS_START,
}
"""Every spelling of every sample that is read (see engine_text.read)."""
