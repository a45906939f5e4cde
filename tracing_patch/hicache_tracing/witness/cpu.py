"""Signing and comparing on the CPU, in line with the copy, which is synchronous there. 9 bytes a host slot."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from time import perf_counter_ns
from typing import Any

from hicache_tracing.records import ContentMode, Kind
from hicache_tracing.witness.pools import draw_keys, joined

LOW = 0xFFFFFFFF
UNREPORTED = 256  # results kept; more wait only where the seam that reports them is off


class CpuWitness:
    def __init__(self, buffers: list[Any], slots: int, mode: ContentMode) -> None:
        import torch

        self._torch = torch
        self._buffers = buffers
        self._mode = mode
        self._keys = draw_keys(buffers, torch)
        self._signatures = torch.zeros(slots, dtype=torch.int64)
        self._seen = torch.zeros(slots, dtype=torch.bool)
        self._results: deque[tuple[int, ...]] = deque(maxlen=UNREPORTED)

    def backed_up(self, transfer: int, operations: Sequence[Any], ack: Any) -> None:
        host, device = joined(operations, self._torch)
        self._signatures[host] = self.sign(device)
        self._seen[host] = True

    def backup_finished(self, transfer: int) -> None:
        pass

    def loaded(self, transfer: int, operations: Sequence[Any], ack: Any) -> None:
        started = perf_counter_ns()
        host, device = joined(operations, self._torch)
        seen = self._seen[host]
        wrong = (self.sign(device) != self._signatures[host]) & seen
        checked, unseen = host.numel(), int((~seen).sum())
        cost = perf_counter_ns() - started
        self._results.append((transfer, checked, int(wrong.sum()), unseen, self._mode, len(self._buffers), cost))

    def load_finished(self, transfer: int) -> None:
        pass

    def left_device(self) -> None:
        pass

    def overwritten(self, host_indices: Any) -> None:
        self._seen[host_indices] = False

    def report(self, write: Callable[..., None]) -> None:
        for result in self._results:
            write(Kind.CONTENT, b"", *result)
        self._results.clear()

    def forget(self) -> None:
        self._seen.zero_()

    def sign(self, rows: Any) -> Any:
        """Signatures of these device slots' rows: int64, one a slot, arithmetic modulo 2**64."""
        torch = self._torch
        count = rows.numel()
        total = torch.zeros(count, dtype=torch.int64)
        for buffer, keys in zip(self._buffers, self._keys, strict=True):
            words = buffer[rows].flatten(1).view(torch.int64)
            low = ((words & LOW) + (keys & LOW)) & LOW
            high = ((words >> 32) + (keys >> 32)) & LOW
            total += (low * high).sum(1)
        return total
