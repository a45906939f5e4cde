"""What is known of one engine, from the engine itself, from its flight recorders and from an optional probe.

``None`` means that nobody gave this number; zero that somebody counted none. Engine and recorder count over windows of
their own (``since`` names them), so no rule takes a number of one from a number of the other; and of what the recorder
saw none, the engine has to have counted none either before anything is concluded.
"""

from __future__ import annotations

import msgspec


class _Fact(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Base of all facts: immutable, keyword-only."""


class Configuration(_Fact, frozen=True, kw_only=True):
    """What the engine was started with, by its own word (/server_info)."""

    version: str | None = None
    hicache: bool | None = None
    metrics: bool | None = None
    write_policy: str | None = None
    host_memory_mode: str | None = None
    page_size: int | None = None
    chunked_prefill_tokens: int | None = None
    tokenizer_workers: int | None = None
    tp_size: int = 1
    pp_size: int = 1
    dp_size: int = 1
    storage_backend: str | None = None
    disaggregation: str | None = None
    speculative: bool = False
    device: str | None = None
    """Where it computes: cuda, cpu and so on."""
    attention_backend: str | None = None
    context_parallel: int | None = None


class Pool(_Fact, frozen=True, kw_only=True):
    """A host pool beside the one for KV: state of a hybrid model."""

    name: str
    capacity: float
    used: float


class Counted(_Fact, frozen=True, kw_only=True):
    """The engine's own metrics, in logical tokens, over the window that ``since`` names; gauges are of now."""

    since: str
    requests: float | None = None
    prompt_tokens: float | None = None
    device_capacity: float | None = None
    host_capacity: float | None = None
    host_used: float | None = None
    pools: tuple[Pool, ...] = ()
    hybrid: bool = False
    """The model keeps other state than KV: Mamba, sliding window."""
    backup_tokens: float | None = None
    evicted_tokens: float | None = None
    evicted_ever: float | None = None
    """Since the engine started, however short the window is."""
    load_back_tokens: float | None = None
    cached_device: float | None = None
    cached_host: float | None = None
    cached_storage: float | None = None
    cached_unattributed: float | None = None
    ranks_added_up: int = 1
    """The raw counters of the cache are so many times too high; the numbers here are already divided."""
    missing: tuple[tuple[str, str], ...] = ()
    """Metric that was expected and is absent, with what would bring it."""


class Seam(_Fact, frozen=True, kw_only=True):
    """One patched engine function: state is a lower-case name of records.SeamState."""

    name: str
    state: str
    fired: bool


class Process(_Fact, frozen=True, kw_only=True):
    """The flight recorder of one rank."""

    rank: str
    running: bool
    seams: tuple[Seam, ...]
    not_recorded: tuple[str, ...] = ()
    """Engine functions that a proof needs and that no attached seam of this process records."""


class Mean(_Fact, frozen=True, kw_only=True):
    """Of a number of observations, in seconds."""

    count: float
    total: float

    @property
    def seconds(self) -> float:
        return self.total / self.count if self.count else 0.0


class Recorded(_Fact, frozen=True, kw_only=True):
    """What the flight recorders told, through the sidecar, over the window that ``since`` names."""

    since: str
    no_sidecar: str | None = None
    """Why no sidecar tells of these recorders, where none does: then nothing is counted here."""
    processes: tuple[Process, ...] = ()
    ranks_expected: int | None = None
    engine_restarts: float = 0
    """Of this engine while the sidecar has followed it: what it counts is of all those runs together."""
    requests: float | None = None
    promised_tokens: float | None = None
    loaded_tokens: float | None = None
    load_backs: dict[str, float] = {}
    """By outcome: names.OUTCOMES."""
    backups_refused: float | None = None
    demoted_tokens: float | None = None
    dropped_tokens: float | None = None
    host_evicted_tokens: float | None = None
    ttft: dict[str, Mean] = {}
    """By the tier that served the prefix; ``none`` = computed."""
    load: Mean | None = None
    """Duration of host-to-device transfers on the device clock; a count of 0 where the engine does not time them."""
    lost_records: float = 0

    @property
    def matched(self) -> bool:
        """A lookup has found something in L2, whether or not its request has been admitted yet."""
        return bool(self.promised_tokens) or any(self.load_backs.values())


class Probe(_Fact, frozen=True, kw_only=True):
    """The same prompt sent twice: what the second reply says against what the counters moved by."""

    requests: int = 2
    prompt_tokens: int
    reply_cached_tokens: int | None
    counted_cached_tokens: float | None


class ChainInput(_Fact, frozen=True, kw_only=True):
    """``*_missing``: why a source told nothing, where it did not."""

    watched_seconds: float | None = None
    """Length of the window; None: everything counts since its own start."""
    configuration: Configuration | None = None
    configuration_missing: str | None = None
    counted: Counted | None = None
    counted_missing: str | None = None
    recorded: Recorded | None = None
    recorded_missing: str | None = None
    probe: Probe | None = None

    @property
    def probed_alone(self) -> bool:
        """Nothing but our own probe was asked in this window: no load that could be judged."""
        asked = self.counted.requests if self.counted is not None else None
        return self.probe is not None and asked is not None and asked <= self.probe.requests
