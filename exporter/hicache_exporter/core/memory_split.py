"""What a GPU's used memory is used for, from the engine's own account of it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple


class EngineMemory(NamedTuple):
    """One engine process on the GPU, bytes. None: the engine gave no such number.

    ``reserved`` is all that its allocator holds, weights and KV pool included.
    """

    reserved: int | None
    weights: int | None
    kv_pool: int | None


def split(used: int | None, engines: Iterable[EngineMemory]) -> dict[str, int]:
    """Bytes by part; the parts add up to ``used`` when all four are there.

    ``allocator_reserved`` is what the allocator holds beyond weights and KV pool (activations, graphs, free blocks).
    A part that any engine on the GPU does not know is left out, and with it those that follow from it; so is a
    negative remainder, which means that the parts do not lie inside one another as assumed.
    """
    present = list(engines)
    parts: dict[str, int] = {}
    if not present:
        return parts
    weights = _sum(engine.weights for engine in present)
    kv_pool = _sum(engine.kv_pool for engine in present)
    reserved = _sum(engine.reserved for engine in present)
    _put(parts, "weights", weights)
    _put(parts, "kv_pool", kv_pool)
    if reserved is None or weights is None or kv_pool is None:
        return parts
    _put(parts, "allocator_reserved", reserved - weights - kv_pool)
    if used is not None and "allocator_reserved" in parts:
        _put(parts, "other", used - reserved)
    return parts


def _sum(values: Iterable[int | None]) -> int | None:
    total = 0
    for value in values:
        if value is None:
            return None
        total += value
    return total


def _put(parts: dict[str, int], part: str, value: int | None) -> None:
    if value is not None and value >= 0:
        parts[part] = value
