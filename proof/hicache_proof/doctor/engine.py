"""From the engine's own answers (/server_info, /metrics) to the facts of the chain. Pure."""

from __future__ import annotations

import msgspec

from hicache_exporter import names
from hicache_exporter.core import engine_families, engine_text
from hicache_exporter.core.engine_expectations import FIRST_USE
from hicache_exporter.core.engine_info import EngineInfo
from hicache_exporter.core.engine_view import EngineView, view
from hicache_exporter.names import Family
from hicache_proof.attached import Scheduler, storage_backend
from hicache_proof.chain.facts import Configuration, Counted, Pool


class _Arguments(msgspec.Struct, frozen=True, kw_only=True):
    """White list of /server_info beyond EngineInfo's: the answer holds API keys as well."""

    enable_metrics: bool | None = None
    hicache_host_memory_mode: str | None = None
    chunked_prefill_size: int | None = None
    tokenizer_worker_num: int | None = None
    speculative_algorithm: str | None = None
    device: str | None = None
    attention_backend: str | None = None
    internal_states: tuple[Scheduler, ...] = ()


def configuration(server_info: bytes, info: EngineInfo) -> Configuration:
    """Raises msgspec.DecodeError, which never quotes the body."""
    arguments = msgspec.json.decode(server_info, type=_Arguments)
    chunk = arguments.chunked_prefill_size
    return Configuration(
        version=info.version,
        hicache=info.enable_hierarchical_cache,
        metrics=arguments.enable_metrics,
        write_policy=info.hicache_write_policy,
        host_memory_mode=arguments.hicache_host_memory_mode,
        page_size=info.page_size,
        chunked_prefill_tokens=chunk if chunk is not None and chunk > 0 else None,
        tokenizer_workers=arguments.tokenizer_worker_num,
        tp_size=info.tp_size or 1,
        pp_size=info.pp_size or 1,
        dp_size=info.dp_size or 1,
        storage_backend=storage_backend(arguments.internal_states, info.hicache_storage_backend),
        disaggregation=info.disaggregation_mode,
        speculative=arguments.speculative_algorithm is not None,
        device=arguments.device,
        attention_backend=arguments.attention_backend,
        context_parallel=info.attn_cp_size,
    )


def counted(metrics: bytes, info: EngineInfo | None) -> Counted:
    """Raises ValueError for a text that is not an engine's, or was cut off."""
    text = engine_text.read(metrics, engine_families.WANTED)
    if not text.engine_families:
        raise ValueError("no metric of SGLang in it")
    seen = view(text, info)
    shape = info.shape if info is not None else None
    added_up = any(basis == "divided" for _, basis in seen.basis) and shape is not None
    return Counted(
        since="the engine started",
        requests=_of(seen, names.ENGINE_FINISHED_REQUESTS),
        prompt_tokens=_of(seen, names.ENGINE_PROMPT_TOKENS),
        device_capacity=_of(seen, names.ENGINE_CAPACITY, "device"),
        host_capacity=_of(seen, names.ENGINE_CAPACITY, "host"),
        host_used=_of(seen, names.ENGINE_USED, "host"),
        pools=_host_pools(seen),
        hybrid=_hybrid(seen),
        backup_tokens=_of(seen, names.ENGINE_BACKUP_TOKENS),
        evicted_tokens=_of(seen, names.ENGINE_EVICTED_TOKENS),
        evicted_ever=_of(seen, names.ENGINE_EVICTED_TOKENS),
        load_back_tokens=_of(seen, names.ENGINE_LOAD_BACK_TOKENS),
        cached_device=_of(seen, names.ENGINE_CACHED_TOKENS, "device"),
        cached_host=_of(seen, names.ENGINE_CACHED_TOKENS, "host"),
        cached_storage=_of(seen, names.ENGINE_CACHED_TOKENS, "storage"),
        cached_unattributed=_of(seen, names.ENGINE_CACHED_TOKENS, "unattributed"),
        ranks_added_up=round(shape.ranks_per_group) if added_up and shape is not None else 1,
        missing=tuple(sorted((metric, flag) for metric, flag in seen.missing.items() if flag != FIRST_USE)),
    )


def _of(seen: EngineView, family: Family, *labels: str) -> float | None:
    return next((value.values[0] for value in seen.values if (value.family, value.labels) == (family, labels)), None)


def _host_pools(seen: EngineView) -> tuple[Pool, ...]:
    capacity = _by_pool(seen, names.ENGINE_POOL_CAPACITY, "host")
    used = _by_pool(seen, names.ENGINE_POOL_USED, "host")
    return tuple(Pool(name=name, capacity=size, used=used.get(name, 0.0)) for name, size in sorted(capacity.items()))


def _by_pool(seen: EngineView, family: Family, tier: str) -> dict[str, float]:
    values = (value for value in seen.values if value.family is family)
    tiers = ((dict(zip(family.labels, value.labels, strict=True)), value.values[0]) for value in values)
    return {labels["pool"]: number for labels, number in tiers if labels["tier"] == tier}


def _hybrid(seen: EngineView) -> bool:
    """Plain models publish the pools of hybrid ones too, all at zero."""
    families = (names.ENGINE_POOL_CAPACITY, names.ENGINE_POOL_USED)
    return any(value.values[0] > 0 for value in seen.values if value.family in families)
