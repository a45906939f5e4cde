"""Signing and comparing on a GPU: one fused kernel an operation, on a stream of our own, never waited for.

Order of events, none of which the engine's streams or thread wait for:

- backup: our stream waits for the transfer's *start* event (the engine's own fence: the rows are final), then signs.
  Rows stay locked until the engine has seen the transfer finished; if our kernel is not done by then, the rows may be
  reused, so these slots become unseen.
- load: our stream waits for the transfer's *finish* event, then compares. The engine holds the loaded rows locked
  until it has seen the transfer finished; if rows leave the device after that and before the comparison is done, its
  result is void: unseen, not damaged.

Counters run on for ever on the device; each comparison ends with a copy of them in pinned memory, and the difference to
the copy before is the result. Memory on the device: 9 bytes a host slot, and the keys (a token's KV in bytes).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from time import perf_counter_ns
from typing import Any

from hicache_tracing.records import ContentMode, Kind
from hicache_tracing.witness.pools import WORD, UnwitnessableError, draw_keys, joined, row_bytes

PENDING = 256  # comparisons under way at once; beyond that an operation is reported unseen
STAGED = 1 << 20  # host slots in the pinned staging ring: 8 MiB


class _Comparison:
    __slots__ = ("copy", "cost", "done", "slots", "tokens", "transfer", "unlocked", "void")

    def __init__(self, transfer: int, tokens: int, copy: int, slots: Any, done: Any, cost: int) -> None:
        self.transfer = transfer
        self.tokens = tokens
        self.copy = copy  # row of the pinned copies
        self.slots = slots  # kept alive until the kernel has read them
        self.done = done
        self.cost = cost
        self.unlocked = False  # the engine may give the rows away
        self.void = False


class CudaWitness:
    def __init__(self, buffers: list[Any], slots: int, mode: ContentMode) -> None:
        import torch

        try:
            from hicache_tracing.witness.kernels import Kernels
        except ImportError as error:
            raise UnwitnessableError(f"no triton: {error}") from error
        self._torch = torch
        self._mode = mode
        self._layers = len(buffers)
        self._device = device = buffers[0].device
        widths = {row_bytes(buffer) // WORD for buffer in buffers}
        strides = {buffer.stride(0) * buffer.element_size() // WORD for buffer in buffers}
        if len(widths) != 1 or len(strides) != 1:
            raise UnwitnessableError("layers of different row sizes")
        self._seen = torch.zeros(slots, dtype=torch.int8, device=device)
        self._counts = torch.zeros(3, dtype=torch.int64, device=device)  # mismatched, unseen, since the start
        told = torch.zeros((PENDING + 1, 2), dtype=torch.int64, pin_memory=True)
        self._copies, self._told = told.unbind(), told.numpy()
        self._staging = torch.zeros(STAGED, dtype=torch.int64, pin_memory=True)
        self._staging_numbers = self._staging.numpy()
        self.signatures = torch.zeros(slots, dtype=torch.int64, device=device)
        self.keys = torch.cat(draw_keys(buffers, torch)).to(device)
        self.kernels = Kernels(
            torch.tensor([buffer.data_ptr() for buffer in buffers], dtype=torch.int64, device=device),
            self.keys,
            self.signatures,
            self._seen,
            self._counts,
            buffers=len(buffers),
            width=widths.pop(),
            stride=strides.pop(),
        )
        self._last = (0, 0)
        self._copy = 0
        self._staged = 0
        self._signing: dict[int, tuple[Any, Any]] = {}  # transfer -> event, host slots
        self._pending: deque[_Comparison] = deque()
        self._void: deque[tuple[int, ...]] = deque(maxlen=PENDING)  # bounded: the seam that reports them may be off
        self._events: list[Any] = []  # not in use
        self._stream = torch.cuda.Stream(device)
        self._warm_up()

    def _warm_up(self) -> None:
        """Compile and run the kernels on the pool's padding row, before the engine serves. Where the compiled ones can
        be launched directly and then find the same, they are from now on.
        """
        torch = self._torch
        index = torch.zeros(1, dtype=torch.int64, device=self._device)
        for slots in (index, self._staging[:1]):
            found = self._found(index, slots)
        try:
            for launch in self.kernels.launches:
                launch.keep()
            kept = self._found(index, self._staging[:1]) == found
        except Exception:  # not this Triton
            kept = False
        if not kept:
            for launch in self.kernels.launches:
                launch.forget()
        self._counts.zero_()
        self._seen.zero_()
        self.signatures.zero_()
        torch.cuda.synchronize(self._device)

    def _found(self, rows: Any, slots: Any) -> list[Any]:
        """What the kernels say to a slot that they have never seen, to an intact one, and to a damaged one."""
        torch = self._torch
        found: list[Any] = []
        for table in (self._counts, self._seen, self.signatures):
            table.zero_()
        for step in (None, lambda: self.kernels.sign(rows, slots, self._stream), lambda: self.signatures.add_(1)):
            torch.cuda.synchronize(self._device)
            if step is not None:
                step()
            torch.cuda.synchronize(self._device)
            self.kernels.compare(rows, slots, self._copies[0], self._stream)
            torch.cuda.synchronize(self._device)
            found += [self.signatures[0].item(), *self._copies[0].tolist()]
        return found

    # -- signing ---------------------------------------------------------------------------------------------

    def backed_up(self, transfer: int, operations: Sequence[Any], ack: Any) -> None:
        host, device = self._joined(operations)
        slots = self._host(host)
        self._stream.wait_event(ack.start_event)
        self.kernels.sign(self._rows(device), slots, self._stream)
        done = self._recorded()
        if len(self._signing) >= PENDING:  # an engine that never tells of finished backups: stop trusting the oldest
            self.backup_finished(next(iter(self._signing)))
        self._signing[transfer] = (done, slots)

    def backup_finished(self, transfer: int) -> None:
        entry = self._signing.pop(transfer, None)
        if entry is None:
            return
        done, slots = entry
        if not done.query():
            self._unsee(slots)
        self._events.append(done)

    def overwritten(self, host_indices: Any) -> None:
        self._unsee(self._host(host_indices))

    def _unsee(self, slots: Any) -> None:
        with self._torch.cuda.stream(self._stream):
            self._seen.index_fill_(0, slots.to(self._device, non_blocking=True), 0)

    def forget(self) -> None:
        with self._torch.cuda.stream(self._stream):
            self._seen.zero_()
        self._signing.clear()
        for comparison in self._pending:
            comparison.void = True

    # -- comparing -------------------------------------------------------------------------------------------

    def loaded(self, transfer: int, operations: Sequence[Any], ack: Any) -> None:
        started = perf_counter_ns()
        host, device = self._joined(operations)
        tokens = host.numel()
        if not tokens or len(self._pending) >= PENDING:  # of other pools' rows only: no program would run, and tell
            self._void.append((transfer, tokens, 0, tokens, self._mode, self._layers, 0))
            return
        slots = self._host(host)
        copy = self._copy
        self._copy = (copy + 1) % (PENDING + 1)
        stream = self._stream
        stream.wait_event(ack.finish_event)
        self.kernels.compare(self._rows(device), slots, self._copies[copy], stream)
        done = self._recorded()
        cost = perf_counter_ns() - started
        self._pending.append(_Comparison(transfer, tokens, copy, slots, done, cost))

    def load_finished(self, transfer: int) -> None:
        for comparison in self._pending:
            if comparison.transfer == transfer:
                comparison.unlocked = True

    def left_device(self) -> None:
        for comparison in self._pending:
            if comparison.unlocked and not comparison.void and not comparison.done.query():
                comparison.void = True

    def report(self, write: Callable[..., None]) -> None:
        for result in self._void:
            write(Kind.CONTENT, b"", *result)
        self._void.clear()
        while self._pending and self._pending[0].done.query():
            comparison = self._pending.popleft()
            self._events.append(comparison.done)
            mismatched, unseen = self._told[comparison.copy].tolist()  # pinned host memory, already there
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
                self._layers,
                comparison.cost,
            )

    def _recorded(self) -> Any:
        """An event after what our stream has been given so far."""
        event = self._events.pop() if self._events else self._torch.cuda.Event()
        event.record(self._stream)
        return event

    # -- indices ---------------------------------------------------------------------------------------------

    def _joined(self, operations: Sequence[Any]) -> tuple[Any, Any]:
        """(host slots, device slots). Several operations are joined by a kernel on the engine's current stream, later
        than the transfer's events: ours must wait for it, or it would read rows at numbers that are not there yet.
        """
        both = joined(operations, self._torch)
        if len(operations) > 1:
            self._stream.wait_stream(self._torch.cuda.current_stream(self._device))
        return both

    def _host(self, host: Any) -> Any:
        """Host slots where the kernel can read them: pinned. A copy from pageable memory would wait for the stream."""
        if host.is_cuda:
            return self._wide(host)
        count = host.numel()
        idle = not (self._pending or self._signing)
        if (idle or self._staged + count > STAGED) and self._stream.query():  # nothing of ours is still to read it
            self._staged = 0  # and what was written last is still in the processor's caches
        fits = self._staged + count <= STAGED
        if not fits:
            staged = self._torch.empty(count, dtype=self._torch.int64, pin_memory=True)
            staged.numpy()[:] = host.numpy()
            return self._on_device(staged)
        first = self._staged
        self._staged = end = first + count
        self._staging_numbers[first:end] = host.numpy()  # a plain copy: the tensor's own starts threads
        return self._staging[first:end]

    def _on_device(self, pinned: Any) -> Any:
        """A copy that our stream makes and owns: the pinned tensor may be dropped at any time, a kernel's may not."""
        with self._torch.cuda.stream(self._stream):
            return pinned.to(self._device, non_blocking=True)

    def _rows(self, device: Any) -> Any:
        """Device slots for our stream: kept alive until it has used them."""
        if not device.is_cuda:
            return self._on_device(device.pin_memory())
        device.record_stream(self._stream)
        return self._wide(device)

    def _wide(self, numbers: Any) -> Any:
        """As the kernels read them: int64. Any other width would be read beyond its end."""
        if numbers.dtype is self._torch.int64:
            return numbers
        with self._torch.cuda.stream(self._stream):
            return numbers.to(self._torch.int64)
