"""A rank of an engine as a process of this machine: what its recorder ring says of it."""

from __future__ import annotations

from typing import NamedTuple

from hicache_exporter.core.memory_split import EngineMemory


class RankProcess(NamedTuple):
    """``born_ns``: when its ring was made (CLOCK_MONOTONIC), by which the process must have existed. None: not told."""

    engine: str
    rank: str
    pid: int
    born_ns: int
    gpu_uuid: str | None = None
    l2_bytes: int | None = None
    """Configured size of its host pool: host tokens times KV bytes of a token."""
    l2_pinned_bytes: int | None = None
    """Of its host pool, what is pinned: all of it or nothing."""
    memory: EngineMemory | None = None
