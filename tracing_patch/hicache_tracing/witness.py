"""The content witness: are the rows that came back from the host the rows that went there?

When slots are backed up, a 64-bit signature of each slot's KV rows (all witnessed layers, K and V) is taken from the
device rows and kept in a table indexed by host slot. After a load-back the loaded device rows are signed again and
compared. The signature is a multilinear hash over the row's 32-bit words with random 64-bit weights, drawn once per
process, different for every layer, K or V, and position: swapped rows, layers or halves are seen. Two different rows
collide with probability at most 2**-32.

Signatures stand or fall with *host slots*: a slot whose backup was not seen (it came from storage, or from before we
attached) is counted as unseen, never as intact. Memory: 9 bytes a host slot and the weights (8 bytes a KV word).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from time import perf_counter_ns
from typing import Any

from hicache_tracing.records import ContentMode, Kind

SAMPLED_LAYERS = 3


class UnwitnessableError(Exception):
    """The pools of this engine cannot be witnessed here; the text says why."""


def kv_buffers(pool: Any) -> list[Any]:
    """The per-layer row tensors of a device pool, (slots, ...) each: K and V of an MHA pool, the latent of an MLA one.

    Raises UnwitnessableError for pools that keep rows elsewhere (hybrid, translated or packed pools).
    """
    if getattr(pool, "host_transfer_translate", None) is not None:
        raise UnwitnessableError(f"{type(pool).__name__} translates its slots")
    keys, values = getattr(pool, "k_buffer", None), getattr(pool, "v_buffer", None)
    if keys and values:
        return [*keys, *values]
    latent = getattr(pool, "kv_buffer", None)
    if isinstance(latent, (list, tuple)) and latent:
        return list(latent)
    raise UnwitnessableError(f"unknown pool {type(pool).__name__}")


class ContentWitness:
    """Signs and compares on the CPU, in line with the copy (which is synchronous there)."""

    def __init__(self, controller: Any, mode: str) -> None:
        import torch

        self._torch = torch
        buffers = kv_buffers(controller.mem_pool_device)
        if buffers[0].device.type != "cpu":
            raise UnwitnessableError(f"rows on {buffers[0].device.type}")
        self.mode = ContentMode[mode.upper()]
        if self.mode is ContentMode.SAMPLED:
            step = max(1, len(buffers) // (2 * SAMPLED_LAYERS))
            buffers = buffers[::step]
        self._buffers = buffers
        generator = torch.Generator().manual_seed(int.from_bytes(os.urandom(7), "little"))
        self._weights = [
            torch.randint(-(1 << 63), (1 << 63) - 1, (_words(buffer),), dtype=torch.int64, generator=generator) | 1
            for buffer in buffers
        ]
        slots = int(controller.mem_pool_host.size)
        self._signatures = torch.zeros(slots, dtype=torch.int64)
        self._seen = torch.zeros(slots, dtype=torch.bool)
        self._results: list[tuple[int, ...]] = []

    def backed_up(self, operations: Sequence[Any]) -> None:
        """Sign the device rows of the operations that are about to be copied to the host."""
        for operation in operations:
            host = operation.host_indices.to("cpu")
            self._signatures[host] = self._sign(operation.device_indices)
            self._seen[host] = True

    def loaded(self, transfer: int, operations: Sequence[Any], ack: Any) -> None:
        """Compare the rows that a finished copy put on the device with the signatures of their host slots."""
        started = perf_counter_ns()
        checked = mismatched = unseen = 0
        for operation in operations:
            host = operation.host_indices.to("cpu")
            seen = self._seen[host]
            wrong = (self._sign(operation.device_indices) != self._signatures[host]) & seen
            checked += host.numel()
            mismatched += int(wrong.sum())
            unseen += int((~seen).sum())
        cost = perf_counter_ns() - started
        self._results.append((transfer, checked, mismatched, unseen, self.mode, len(self._buffers), cost))

    def report(self, write: Callable[..., None]) -> None:
        """Record the comparisons that are ready."""
        for result in self._results:
            write(Kind.CONTENT, b"", *result)
        self._results.clear()

    def forget(self) -> None:
        """The cache was reset: no signature holds any more."""
        self._seen.zero_()

    def _sign(self, rows: Any) -> Any:
        """Signatures of the rows of these device slots: int64, one a slot, arithmetic modulo 2**64."""
        torch = self._torch
        total = torch.zeros(rows.numel(), dtype=torch.int64)
        for buffer, weights in zip(self._buffers, self._weights, strict=True):
            words = buffer[rows].reshape(rows.numel(), -1).view(torch.int32).to(torch.int64)
            total += (words * weights).sum(1)
        return total


def _words(buffer: Any) -> int:
    """32-bit words in one row. Raises UnwitnessableError if rows do not divide into them."""
    size = buffer[0].numel() * buffer.element_size()
    if size % 4:
        raise UnwitnessableError(f"rows of {size} bytes")
    return int(size // 4)
