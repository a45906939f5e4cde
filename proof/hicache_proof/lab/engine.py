"""What an engine says of itself: its configuration once, and its gauges and counters at one moment.

Pure: answers in, numbers out. ``None`` means that the engine gave no such number, which is not zero.
Capacities are the realised ones (gauges), never computed from flags.
"""

from __future__ import annotations

import dataclasses
import re

import msgspec
from msgspec.structs import replace

from hicache_exporter import names
from hicache_exporter.core import engine_families, engine_text
from hicache_exporter.core.engine_info import EngineInfo, read_server_info
from hicache_exporter.core.engine_text import EngineText
from hicache_exporter.core.engine_view import view
from hicache_proof.attached import Scheduler, storage_backend


class EngineFacts(msgspec.Struct, frozen=True, kw_only=True):
    url: str
    version: str | None
    model: str | None
    weight_version: str | None
    launch_command: str | None
    """Without the secrets that may stand on it."""
    device: str | None
    """Where it computes: cuda, cpu and so on."""
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
    tokenizer_workers: int
    prefetch_policy: str | None = None
    """When a prefetch from L3 ends: best_effort, wait_complete or timeout."""
    dp_rank: int | None = None
    """The data-parallel replica that all requests were sent to; None: there is only one."""


class Reading(msgspec.Struct, frozen=True, kw_only=True):
    """One scrape. Token counters are logical: what one rank of a tensor-parallel group counts."""

    at_ns: int
    running: float | None = None
    queued: float | None = None
    device_capacity: float | None = None
    device_used: float | None = None
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
    storage_backup_tokens: float | None = None
    storage_prefetched_tokens: float | None = None


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
    storage_backup_tokens: float | None = None
    storage_prefetched_tokens: float | None = None


class _Arguments(msgspec.Struct, frozen=True, kw_only=True):
    """The white list of /server_info that the lab needs beyond the sidecar's: the answer holds API keys as well."""

    model_path: str | None = None
    device: str | None = None
    weight_version: str | None = None
    launch_command: str | None = None
    hicache_io_backend: str | None = None
    hicache_mem_layout: str | None = None
    radix_eviction_policy: str | None = None
    chunked_prefill_size: int | None = None
    max_req_input_len: int | None = None
    context_length: int | None = None
    tokenizer_worker_num: int | None = None
    hicache_storage_prefetch_policy: str | None = None
    internal_states: tuple[Scheduler, ...] = ()


_READ: dict[tuple[str, tuple[str, ...]], str] = {
    (names.ENGINE_RUNNING.name, ()): "running",
    (names.ENGINE_QUEUED.name, ()): "queued",
    (names.ENGINE_CAPACITY.name, ("device",)): "device_capacity",
    (names.ENGINE_CAPACITY.name, ("host",)): "host_capacity",
    (names.ENGINE_USED.name, ("device",)): "device_used",
    (names.ENGINE_USED.name, ("host",)): "host_used",
    (names.ENGINE_EVICTABLE.name, ()): "device_evictable",
    (names.ENGINE_FINISHED_REQUESTS.name, ()): "requests",
    (names.ENGINE_PROMPT_TOKENS.name, ()): "prompt_tokens",
    (names.ENGINE_CACHED_TOKENS.name, ("device",)): "cached_device",
    (names.ENGINE_CACHED_TOKENS.name, ("host",)): "cached_host",
    (names.ENGINE_CACHED_TOKENS.name, ("storage",)): "cached_storage",
    (names.ENGINE_CACHED_TOKENS.name, ("unattributed",)): "cached_unattributed",
    (names.ENGINE_LOAD_BACK_TOKENS.name, ()): "load_back_tokens",
    (names.ENGINE_LOAD_BACK_BYTES.name, ()): "load_back_bytes",
    (names.ENGINE_BACKUP_TOKENS.name, ()): "backup_tokens",
    (names.ENGINE_EVICTED_TOKENS.name, ()): "evicted_tokens",
    (names.ENGINE_STORAGE_BACKUP_TOKENS.name, ()): "storage_backup_tokens",
    (names.ENGINE_STORAGE_PREFETCHED_TOKENS.name, ()): "storage_prefetched_tokens",
}


_A_REPLICA_S_OWN = ("device_capacity", "device_used", "device_evictable", "host_capacity", "host_used")


def describe(url: str, server_info: bytes) -> tuple[EngineFacts, EngineInfo]:
    """From the body of /server_info. Raises ValueError for a body that is not SGLang's."""
    info = read_server_info(server_info)
    arguments = msgspec.json.decode(server_info, type=_Arguments)
    if info.page_size is None:
        raise ValueError("no page_size in it")
    chunk, schedulers = arguments.chunked_prefill_size, arguments.internal_states
    policy = next((one.hicache_storage_prefetch_policy for one in schedulers), None)
    facts = EngineFacts(
        url=url,
        version=info.version,
        model=info.served_model_name or arguments.model_path,
        weight_version=arguments.weight_version,
        launch_command=redacted(arguments.launch_command) if arguments.launch_command else None,
        device=arguments.device,
        hicache=bool(info.enable_hierarchical_cache),
        write_policy=info.hicache_write_policy,
        io_backend=arguments.hicache_io_backend,
        mem_layout=arguments.hicache_mem_layout,
        storage_backend=storage_backend(schedulers, info.hicache_storage_backend),
        prefetch_policy=policy or arguments.hicache_storage_prefetch_policy,
        eviction_policy=arguments.radix_eviction_policy,
        page_size=info.page_size,
        chunked_prefill_tokens=chunk if chunk is not None and chunk > 0 else None,
        max_prompt_tokens=arguments.max_req_input_len or arguments.context_length,
        tp_size=info.tp_size or 1,
        pp_size=info.pp_size or 1,
        dp_size=info.dp_size or 1,
        tokenizer_workers=arguments.tokenizer_worker_num or 1,
    )
    return facts, info


def read(metrics: bytes, info: EngineInfo, at_ns: int, dp_rank: int | None = None) -> Reading:
    """From the body of /metrics. Raises engine_text.TruncatedError or EncodingError, both ValueErrors.

    ``dp_rank``: sizes and fill are those of that replica. Counters are the engine's: SGLang labels those of its caches
    with rank 0 whichever replica counts, so they are told apart by nobody else being served.
    """
    text = engine_text.read(metrics, engine_families.WANTED)
    if not text.engine_families:
        raise ValueError("no metric of SGLang in it")
    numbers = _numbers(text, info)
    if dp_rank is not None:
        of_one = _numbers(_of_replica(text, dp_rank), replace(info, dp_size=1))
        numbers = {name: value for name, value in numbers.items() if name not in _A_REPLICA_S_OWN}
        numbers |= {name: value for name, value in of_one.items() if name in _A_REPLICA_S_OWN}
    return Reading(at_ns=at_ns, **numbers)


def _of_replica(text: EngineText, dp_rank: int) -> EngineText:
    """Without the samples of other replicas. What has no such label is of whichever wrote last, or the same of all."""
    kept = {
        name: tuple(sample for sample in samples if sample.labels.get("dp_rank", str(dp_rank)) == str(dp_rank))
        for name, samples in text.samples.items()
    }
    return dataclasses.replace(text, samples={name: samples for name, samples in kept.items() if samples})


def _numbers(text: EngineText, info: EngineInfo) -> dict[str, float]:
    numbers = {}
    for value in view(text, info).values:
        field = _READ.get((value.family.name, value.labels))
        if field is not None:
            numbers[field] = value.values[0]
    return numbers


def window(before: Reading, after: Reading) -> Window:
    """Deltas. A counter that appears inside the window started at zero: its first value is its delta."""
    return Window(**{name: _delta(getattr(before, name), getattr(after, name)) for name in Window.__struct_fields__})


def redacted(command: str) -> str:
    """A command line without the secrets that SGLang takes on it."""
    return re.sub(r"(--(?:admin-)?api-key[= ])\S+", r"\1(redacted)", command)


def _delta(before: float | None, after: float | None) -> float | None:
    return None if after is None else after - (before or 0.0)
