"""What an engine says of itself: its configuration once, and its gauges and counters at one moment.

Pure: answers in, numbers out. ``None`` means that the engine gave no such number, which is not zero.
Capacities are the realised ones (gauges), never computed from flags.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from hicache_exporter.core import engine_text

_WANTED = engine_text.spellings(
    (
        "num_running_reqs",
        "num_queue_reqs",
        "max_total_num_tokens",
        "kv_available_tokens",
        "kv_evictable_tokens",
        "hicache_host_total_tokens",
        "hicache_host_used_tokens",
        "num_requests_total",
        "prompt_tokens_total",
        "cached_tokens_total",
        "load_back_tokens_total",
        "load_back_bytes_total",
        "hicache_backup_tokens_total",
        "evicted_tokens_total",
    )
)


class EngineFacts(msgspec.Struct, frozen=True, kw_only=True):
    url: str
    version: str | None
    model: str | None
    weight_version: str | None
    launch_command: str | None
    hicache: bool
    write_policy: str | None
    io_backend: str | None
    mem_layout: str | None
    storage_backend: str | None
    eviction_policy: str | None
    page_size: int
    chunked_prefill_tokens: int | None
    """None: the engine prefills a prompt in one piece."""
    max_prompt_tokens: int | None
    tp_size: int
    pp_size: int
    dp_size: int
    tokenizer: bool
    tokenizer_workers: int


class Reading(msgspec.Struct, frozen=True, kw_only=True):
    """One scrape. Token counters are logical: what one rank of a tensor-parallel group counts."""

    at_ns: int
    running: float | None = None
    queued: float | None = None
    device_capacity: float | None = None
    device_available: float | None = None
    device_evictable: float | None = None
    host_capacity: float | None = None
    host_used: float | None = None
    requests: float | None = None
    prompt_tokens: float | None = None
    cached_device: float | None = None
    cached_host: float | None = None
    cached_storage: float | None = None
    cached_unattributed: float | None = None
    load_back_tokens: float | None = None
    load_back_bytes: float | None = None
    backup_tokens: float | None = None
    evicted_tokens: float | None = None


class Window(msgspec.Struct, frozen=True, kw_only=True):
    """What the engine's counters moved by between two readings; None where the engine has no such counter."""

    requests: float | None
    prompt_tokens: float | None
    cached_device: float | None
    cached_host: float | None
    cached_unattributed: float | None
    load_back_tokens: float | None
    load_back_bytes: float | None
    backup_tokens: float | None
    evicted_tokens: float | None


def facts(url: str, info: Mapping[str, Any]) -> EngineFacts:
    """From the JSON of /server_info. Raises KeyError for a document that is not SGLang's."""
    chunk = info.get("chunked_prefill_size")
    return EngineFacts(
        url=url,
        version=info.get("version"),
        model=info.get("served_model_name") or info.get("model_path"),
        weight_version=info.get("weight_version"),
        launch_command=info.get("launch_command"),
        hicache=bool(info.get("enable_hierarchical_cache")),
        write_policy=info.get("hicache_write_policy"),
        io_backend=info.get("hicache_io_backend"),
        mem_layout=info.get("hicache_mem_layout"),
        storage_backend=info.get("hicache_storage_backend"),
        eviction_policy=info.get("radix_eviction_policy"),
        page_size=int(info["page_size"]),
        chunked_prefill_tokens=chunk if isinstance(chunk, int) and chunk > 0 else None,
        max_prompt_tokens=info.get("max_req_input_len") or info.get("context_length"),
        tp_size=info.get("tp_size") or 1,
        pp_size=info.get("pp_size") or 1,
        dp_size=info.get("dp_size") or 1,
        tokenizer=not info.get("skip_tokenizer_init"),
        tokenizer_workers=info.get("tokenizer_worker_num") or 1,
    )


def read(metrics: bytes, at_ns: int, ranks: int) -> Reading:
    """From the body of /metrics. Raises engine_text.Truncated or NotUtf8.

    ``ranks``: schedulers that count the same logical token (tensor times pipeline parallel size); counters without a
    rank label are the sum over them, in a multiprocess registry.
    """
    samples = _Samples(metrics)
    return Reading(
        at_ns=at_ns,
        running=samples.gauge("num_running_reqs"),
        queued=samples.gauge("num_queue_reqs"),
        device_capacity=samples.gauge("max_total_num_tokens"),
        device_available=samples.gauge("kv_available_tokens"),
        device_evictable=samples.gauge("kv_evictable_tokens"),
        host_capacity=samples.gauge("hicache_host_total_tokens"),
        host_used=samples.gauge("hicache_host_used_tokens"),
        requests=samples.total("num_requests_total"),
        prompt_tokens=samples.total("prompt_tokens_total"),
        cached_device=samples.total("cached_tokens_total", cache_source="device"),
        cached_host=samples.total("cached_tokens_total", cache_source="host"),
        cached_storage=samples.storage(),
        cached_unattributed=samples.total("cached_tokens_total", cache_source="total"),
        load_back_tokens=samples.logical("load_back_tokens_total", ranks),
        load_back_bytes=samples.total("load_back_bytes_total"),
        backup_tokens=samples.logical("hicache_backup_tokens_total", ranks),
        evicted_tokens=samples.logical("evicted_tokens_total", ranks),
    )


def window(before: Reading, after: Reading) -> Window:
    """Deltas. A labelled counter that appears inside the window started at zero: its first value is its delta."""
    return Window(**{name: _delta(getattr(before, name), getattr(after, name)) for name in Window.__struct_fields__})


def _delta(before: float | None, after: float | None) -> float | None:
    return None if after is None else after - (before or 0.0)


class _Samples:
    """The samples of one scrape that a reading is made of."""

    def __init__(self, body: bytes) -> None:
        self._text = engine_text.read(body, _WANTED)

    def gauge(self, name: str) -> float | None:
        """Ranks of a tensor-parallel group hold the same tokens: the smallest of them is what can be relied on."""
        values = [sample.value for sample in self._text.of(name)]
        return min(values) if values else None

    def total(self, name: str, **labels: str) -> float | None:
        values = [
            sample.value
            for sample in self._text.of(name)
            if all(sample.labels.get(label) == value for label, value in labels.items())
        ]
        return sum(values) if values else None

    def storage(self) -> float | None:
        """The storage source is ``storage`` or, in older engines, ``storage_`` and its backend."""
        values = [
            sample.value
            for sample in self._text.of("cached_tokens_total")
            if sample.labels.get("cache_source", "").startswith("storage")
        ]
        return sum(values) if values else None

    def logical(self, name: str, ranks: int) -> float | None:
        samples = [sample for sample in self._text.of(name) if sample.labels.get("pool", "kv") == "kv"]
        if not samples:
            return None
        if all("tp_rank" in sample.labels for sample in samples):
            first = (s for s in samples if s.labels["tp_rank"] == "0" and s.labels.get("pp_rank", "0") == "0")
            return sum(sample.value for sample in first)
        return sum(sample.value for sample in samples) / ranks
