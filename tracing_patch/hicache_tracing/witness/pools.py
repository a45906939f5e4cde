"""Where an engine keeps its KV rows on the device, and the keys to hash them with."""

from __future__ import annotations

import os
from typing import Any

from hicache_tracing.records import ContentMode

WORD = 8  # bytes


class UnwitnessableError(Exception):
    """The pools of this engine cannot be witnessed here; the text says why."""


def kv_buffers(pool: Any, mode: ContentMode) -> list[Any]:
    """The row tensors of a device pool, (slots, ...) a layer: K then V of an MHA pool, the latent of an MLA one.

    Sampled mode takes K of one layer and V of another (of MLA: the latents of both). Raises UnwitnessableError for
    pools that keep rows elsewhere (hybrid, translated or packed pools) or in rows that are not whole 64-bit words.
    """
    if getattr(pool, "host_transfer_translate", None) is not None:
        raise UnwitnessableError(f"{type(pool).__name__} translates its slots")
    keys, values = getattr(pool, "k_buffer", None), getattr(pool, "v_buffer", None)
    latent = getattr(pool, "kv_buffer", None)
    if keys and values:
        layers: list[tuple[Any, ...]] = list(zip(keys, values, strict=True))
    elif isinstance(latent, (list, tuple)) and latent:
        layers = [(buffer,) for buffer in latent]
    else:
        raise UnwitnessableError(f"unknown pool {type(pool).__name__}")
    if mode is ContentMode.SAMPLED:
        third = len(layers) // 3
        layers = [layers[third][:1], layers[-1 - third][-1:]]
    buffers = [buffer for layer in layers for buffer in layer]
    for buffer in buffers:
        if row_bytes(buffer) % WORD or not buffer[0].is_contiguous():
            raise UnwitnessableError(f"rows of {row_bytes(buffer)} bytes, {tuple(buffer.shape)}")
    return buffers


def row_bytes(buffer: Any) -> int:
    return int(buffer[0].numel() * buffer.element_size())


def draw_keys(buffers: list[Any], torch: Any) -> list[Any]:
    """One random 64-bit key a word of each buffer's row (int64, on the CPU)."""
    generator = torch.Generator().manual_seed(int.from_bytes(os.urandom(7), "little"))
    low, high = -(1 << 63), (1 << 63) - 1
    return [
        torch.randint(low, high, (row_bytes(buffer) // WORD,), dtype=torch.int64, generator=generator)
        for buffer in buffers
    ]


def joined(operations: Any, torch: Any) -> tuple[Any, Any]:
    """(host slots, device slots) of queued operations, in order, as one pair of index tensors."""
    if len(operations) == 1:
        return operations[0].host_indices, operations[0].device_indices
    return (
        torch.cat([operation.host_indices for operation in operations]),
        torch.cat([operation.device_indices for operation in operations]),
    )
