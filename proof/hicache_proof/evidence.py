"""What the witnesses of one request saw: plain numbers, no judgement.

Every witness is optional. ``None`` means *this witness was not there*; zero means it was there and counted nothing.
The ledger of the sidecar fills the recorder's witnesses, the lab adds those that only it can see.
Tokens are per rank unless named logical; bytes are this rank's own; times are nanoseconds of CLOCK_MONOTONIC.
"""

from __future__ import annotations

from typing import Literal

import msgspec


class _Fact(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Base of all facts: immutable, keyword-only, strict when read from JSON."""


class Lookup(_Fact, frozen=True, kw_only=True):
    """What the tree promised at the last lookup before admission (engine: PrefillAdder.add_one_req)."""

    prompt_tokens: int
    device_tokens: int
    host_tokens: int
    storage_tokens: int | None = None
    node_id: int
    at_ns: int


class LoadBack(_Fact, frozen=True, kw_only=True):
    """What init_load_back answered. ``outcome`` is the lower-case name of records.LoadBackOutcome."""

    promised_tokens: int
    loaded_tokens: int
    outcome: str
    node_id: int
    threshold: int | None = None
    quota: int | None = None
    evicted_tokens: int = 0
    at_ns: int


class Residency(_Fact, frozen=True, kw_only=True):
    """Where the blocks had been before the lookup, from the ledger of events (never from the engine's tree)."""

    backed_up_tokens: int
    """Of the slots read: written by a finished backup, not overwritten since."""
    unfinished_backup_tokens: int
    left_device_tokens: int | None
    """Tokens seen leaving the device, with their host copy kept, after that backup; None: no eviction seam attached."""
    node_seen_leaving: bool | None
    """The loaded node itself was seen leaving the device since it was last there; None: not observable."""
    returned_since: bool
    """The same slots had already been loaded back after the last time they left: L1 may still have held them."""
    backed_up_at_ns: int | None = None
    left_device_at_ns: int | None = None


class Writer(_Fact, frozen=True, kw_only=True):
    request_id: str | None
    operation_id: int
    tokens: int
    written_at_ns: int


class Provenance(_Fact, frozen=True, kw_only=True):
    """Whose backup wrote the host slots that this request's load read. Slots are the stable identity: nodes split."""

    slots_read: int
    slots_known: int
    """Of those: written by a backup that the recorder saw."""
    writers: tuple[Writer, ...] = ()


class Transfer(_Fact, frozen=True, kw_only=True):
    """One host-to-device transfer that carried blocks of this request."""

    transfer_id: int
    tokens: int
    """Tokens of the whole transfer; it may serve several requests."""
    request_tokens: int
    """Tokens of it that this request asked for."""
    bytes: int | None
    queued_ns: int | None = None
    """When the first of its operations was queued: none of its bytes moved before. None: an older sidecar's."""
    submitted_ns: int
    """When the engine had handed it to the device; of a copy page by page, most bytes may have moved by then."""
    finished_ns: int | None = None
    """When the engine saw it finished; None: never seen finished."""
    finished: bool | None = None
    """False: dropped by a reset; None: still open."""
    device_seconds: float | None = None
    """Between the engine's own device events; None where this engine does not time them."""
    requests: int = 1


class Attribution(_Fact, frozen=True, kw_only=True):
    """Cached tokens by source, as the engine accounts them (None: the engine gave no such number)."""

    device_tokens: int | None
    host_tokens: int | None
    storage_tokens: int | None = None
    cached_tokens: int | None = None
    source: Literal["scheduler", "reply"]


class Counters(_Fact, frozen=True, kw_only=True):
    """Deltas of the engine's own /metrics over the request's window, in logical tokens."""

    load_back_tokens: int | None
    cached_host_tokens: int | None
    cached_device_tokens: int | None = None
    load_back_bytes: int | None = None
    exclusive: bool
    """Nothing else was served in the window, so the deltas can be held against this one request."""


class Physical(_Fact, frozen=True, kw_only=True):
    """Bytes that crossed the bus during the transfer, from the GPU's own cumulative counters (NVML fields 197, 198).

    ``None``: nobody measured it, which is not zero; such a window is never usable.
    """

    claimed_bytes: int
    bus_bytes: int | None
    baseline_bytes: int | None
    usable: bool
    why_not: str | None = None


class Content(_Fact, frozen=True, kw_only=True):
    """Signatures of the rows loaded, against those taken when they were backed up."""

    checked: int
    mismatched: int
    unseen: int
    mode: Literal["sampled", "full"]
    layers: int


class Answer(_Fact, frozen=True, kw_only=True):
    """Lab only: the answer of this request against the answer of the L1 run of the same prompt."""

    same_tokens: bool
    max_logprob_delta: float
    tolerance: float
    markers_planted: int = 0
    markers_recalled: int = 0


class Control(_Fact, frozen=True, kw_only=True):
    """Lab only: the same load where no L2 read can happen."""

    kind: Literal["hicache_off", "forced_miss"]
    host_tokens: int | None
    load_back_tokens: int | None
    cached_tokens: int | None


class Recorder(_Fact, frozen=True, kw_only=True):
    """Whether the flight recorder watched the whole window."""

    watching: bool
    lost_records: int
    lookups: int = 0
    reset_in_window: bool = False
    weights_changed: bool = False
    engine_restarted: bool = False
    clock_stepped: bool = False


class RankView(_Fact, frozen=True, kw_only=True):
    """The same request on another rank of the engine."""

    rank: str
    host_tokens: int | None
    loaded_tokens: int | None
    mismatched: int | None = None
    unseen: int | None = None
    """Of its rows, those without a signature from their backup."""
    physical: Physical | None = None
    """Of its own transfers, on its own GPU."""


class Evidence(_Fact, frozen=True, kw_only=True):
    """All that is known of how one request was served, on one rank, plus what its sibling ranks say."""

    request_id: str
    engine: str
    rank: str
    recorder: Recorder
    lookup: Lookup | None = None
    load_back: LoadBack | None = None
    residency: Residency | None = None
    provenance: Provenance | None = None
    transfers: tuple[Transfer, ...] | None = None
    attribution: Attribution | None = None
    reply: Attribution | None = None
    counters: Counters | None = None
    physical: Physical | None = None
    content: Content | None = None
    answer: Answer | None = None
    control: Control | None = None
    ranks: tuple[RankView, ...] = ()
    admitted_ns: int | None = None
    first_token_ns: int | None = None
    prompt_tokens: int | None = None
    computed_tokens: int | None = None
    page_size: int | None = None
    """Tokens a page of the cache; amounts that differ by less than a page agree."""
