"""The ranks on this machine as processes, from the rings that are being followed."""

from __future__ import annotations

from hicache_exporter.core.identity import Identity
from hicache_exporter.core.memory_split import EngineMemory
from hicache_exporter.core.rank_process import RankProcess
from hicache_exporter.follower import Followed, Follower


def rank_processes(follower: Follower) -> list[RankProcess]:
    return [_process(found) for found in follower.followed.values() if not found.ledger.ended]


def gpu_of(identity: Identity) -> str | None:
    """UUID of the rank's GPU as NVML writes it; None: the recorder does not tell."""
    uuid = identity.facts.get("gpu_uuid")
    if not isinstance(uuid, str) or not uuid:
        return None
    return uuid if uuid.startswith("GPU-") else f"GPU-{uuid}"


def _process(found: Followed) -> RankProcess:
    identity, memory = found.ledger.identity, found.ledger.memory
    tokens, per_token = identity.facts.get("host_tokens"), identity.bytes_per_token
    return RankProcess(
        engine=found.engine.label,
        rank=identity.rank,
        pid=found.ring.header.pid,
        born_ns=found.ring.header.created_ns,
        gpu_uuid=gpu_of(identity),
        l2_bytes=tokens * per_token if isinstance(tokens, int) and per_token is not None else None,
        l2_pinned_bytes=_pinned(memory.get("host_pool"), memory.get("host_pinned")),
        memory=EngineMemory(memory.get("reserved"), memory.get("weights"), memory.get("kv_pool")),
    )


def _pinned(pool: int | None, pinned: int | None) -> int | None:
    return None if pool is None or pinned is None else pool * bool(pinned)
