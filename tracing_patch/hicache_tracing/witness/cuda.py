"""Signing and comparing on a GPU: one fused kernel an operation, on a stream of our own, never waited for.

Order of events, none of which the engine's streams or thread wait for:

- backup: our stream waits for the transfer's *start* event (the engine's own fence: the rows are final), then signs.
  Rows stay locked until the engine has seen the transfer finished; if our kernel is not done by then, the rows may be
  reused, so these slots become unseen.
- load: our stream waits for the transfer's *finish* event, then compares. If rows leave the device before the
  comparison is done, its result is void: unseen, not damaged.

Counters run on for ever on the device; after each comparison they are copied to pinned memory, and the difference to
the copy before is the result. Memory on the device: 9 bytes a host slot, and the keys (as many bytes as a token's KV).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from time import perf_counter_ns
from typing import Any

from hicache_tracing.records import ContentMode, Kind
from hicache_tracing.witness.pools import WORD, UnwitnessableError, draw_keys, joined, row_bytes

PENDING = 256  # comparisons under way at once; beyond that an operation is reported unseen


class _Comparison:
    __slots__ = ("cost", "done", "slot", "tokens", "transfer", "void")

    def __init__(self, transfer: int, tokens: int, slot: int, done: Any, cost: int) -> None:
        self.transfer = transfer
        self.tokens = tokens
        self.slot = slot
        self.done = done
        self.cost = cost
        self.void = False


class CudaWitness:
    def __init__(self, buffers: list[Any], slots: int, mode: ContentMode) -> None:
        import torch

        try:
            from hicache_tracing.witness import kernels
        except ImportError as error:
            raise UnwitnessableError(f"no triton: {error}") from error
        self._torch = torch
        self._kernels = kernels
        self._buffers = buffers
        self._mode = mode
        self._device = buffers[0].device
        widths = {row_bytes(buffer) // WORD for buffer in buffers}
        strides = {buffer.stride(0) * buffer.element_size() // WORD for buffer in buffers}
        if len(widths) != 1 or len(strides) != 1:
            raise UnwitnessableError("layers of different row sizes")
        self._words, self._stride = widths.pop(), strides.pop()
        self._pointers = torch.tensor([buffer.data_ptr() for buffer in buffers], dtype=torch.int64, device=self._device)
        self._keys = torch.cat(draw_keys(buffers, torch)).to(self._device)
        self._signatures = torch.zeros(slots, dtype=torch.int64, device=self._device)
        self._seen = torch.zeros(slots, dtype=torch.int8, device=self._device)
        self._counts = torch.zeros(2, dtype=torch.int64, device=self._device)  # mismatched, unseen, since the start
        self._copies = torch.zeros((PENDING + 1, 2), dtype=torch.int64, pin_memory=True)
        self._last = (0, 0)
        self._slot = 0
        self._signing: dict[int, tuple[Any, Any]] = {}  # transfer -> (event, host slots on the device)
        self._pending: deque[_Comparison] = deque()
        self._void: list[tuple[int, ...]] = []
        self._stream = torch.cuda.Stream(self._device)
        self._warm_up()

    def _warm_up(self) -> None:
        """Compile and run both kernels once, on the pool's padding row, before the engine serves."""
        torch = self._torch
        index = torch.zeros(1, dtype=torch.int64, device=self._device)
        with torch.cuda.stream(self._stream):
            self._kernels.sign(self, index, index.int())
            self._kernels.compare(self, index, index.int())
        self._stream.synchronize()
        self._counts.zero_()
        self._seen.zero_()
        torch.cuda.synchronize(self._device)

    # -- signing ---------------------------------------------------------------------------------------------

    def backed_up(self, transfer: int, operations: Sequence[Any], ack: Any) -> None:
        torch = self._torch
        host, device = joined(operations, torch)
        staged = self._pinned(host)
        with torch.cuda.stream(self._stream):
            slots = staged.to(self._device, non_blocking=True)
            self._stream.wait_event(ack.start_event)
            rows = self._rows(device)
            self._kernels.sign(self, rows, slots)
            done = torch.cuda.Event()
            done.record()
        if len(self._signing) >= PENDING:
            self._signing.clear()
        self._signing[transfer] = (done, slots)

    def backup_finished(self, transfer: int) -> None:
        done, slots = self._signing.pop(transfer, (None, None))
        if done is None or done.query():
            return
        with self._torch.cuda.stream(self._stream):
            self._seen.index_fill_(0, slots.long(), 0)

    def overwritten(self, host_indices: Any) -> None:
        staged = self._pinned(host_indices)
        with self._torch.cuda.stream(self._stream):
            self._seen.index_fill_(0, staged.to(self._device, non_blocking=True).long(), 0)

    def forget(self) -> None:
        with self._torch.cuda.stream(self._stream):
            self._seen.zero_()
        self._signing.clear()
        self.left_device()

    # -- comparing -------------------------------------------------------------------------------------------

    def loaded(self, transfer: int, operations: Sequence[Any], ack: Any) -> None:
        torch = self._torch
        started = perf_counter_ns()
        host, device = joined(operations, torch)
        tokens = host.numel()
        if len(self._pending) >= PENDING:
            self._void.append((transfer, tokens, 0, tokens, self._mode, len(self._buffers), 0))
            return
        staged = self._pinned(host)
        slot = self._slot
        self._slot = (slot + 1) % (PENDING + 1)
        with torch.cuda.stream(self._stream):
            slots = staged.to(self._device, non_blocking=True)
            self._stream.wait_event(ack.finish_event)
            rows = self._rows(device)
            self._kernels.compare(self, rows, slots)
            self._copies[slot].copy_(self._counts, non_blocking=True)
            done = torch.cuda.Event()
            done.record()
        cost = perf_counter_ns() - started
        self._pending.append(_Comparison(transfer, tokens, slot, done, cost))

    def left_device(self) -> None:
        for comparison in self._pending:
            if not comparison.void and not comparison.done.query():
                comparison.void = True

    def report(self, write: Callable[..., None]) -> None:
        for result in self._void:
            write(Kind.CONTENT, b"", *result)
        self._void.clear()
        while self._pending and self._pending[0].done.query():
            comparison = self._pending.popleft()
            mismatched, unseen = (int(count) for count in self._copies[comparison.slot].tolist())  # pinned host memory
            delta = mismatched - self._last[0], unseen - self._last[1]
            self._last = mismatched, unseen
            if comparison.void:
                delta = 0, comparison.tokens
            write(
                Kind.CONTENT,
                b"",
                comparison.transfer,
                comparison.tokens,
                *delta,
                self._mode,
                len(self._buffers),
                comparison.cost,
            )

    # -- indices ---------------------------------------------------------------------------------------------

    def _pinned(self, host: Any) -> Any:
        """Host slots in pinned memory, 32 bits each: a copy from pageable memory would wait for the stream."""
        if host.is_cuda:
            return host.int()
        staged = self._torch.empty(host.numel(), dtype=self._torch.int32, pin_memory=True)
        staged.copy_(host)
        return staged

    def _rows(self, device: Any) -> Any:
        """Device slots for our stream: kept alive until it has used them."""
        if not device.is_cuda:
            return device.pin_memory().to(self._device, non_blocking=True)
        device.record_stream(self._stream)
        return device
