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

A kernel is done when it has told so, in pinned memory: its programs have then read all that they were to read. Until
that was seen, row numbers, slot numbers and the place where it tells are kept. An event of our own would say no more,
and took the scheduler's thread a call of the driver to record and another each time it was asked. The same for telling
the allocator who else uses a tensor: that is left for those that are let go before their kernel is done.

Under load nothing that is called here is in the processor's caches, so what counts is how much different code runs: two
calls of the driver (wait, launch) and few of torch.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Sequence
from time import perf_counter_ns
from typing import Any

from hicache_tracing.records import ContentMode, Kind
from hicache_tracing.witness.pinned import Pinned
from hicache_tracing.witness.pools import WORD, UnwitnessableError, draw_keys, joined, row_bytes

PENDING = 256  # comparisons under way at once; beyond that an operation is reported unseen
STAGED = 1 << 20  # host slots in the pinned staging ring: 8 MiB
SIGNED = 2 * (PENDING + 1)  # behind the copies of the counters: the number of the last signing that is done
NOT_TOLD = -1  # no count
TRIED = 5  # rows: two programs of a kernel, the second not full

logger = logging.getLogger("hicache_witness")


class _Comparison:
    __slots__ = ("copy", "cost", "kept", "tokens", "transfer", "unlocked", "void")

    def __init__(self, transfer: int, tokens: int, copy: int, kept: tuple[Any, Any], cost: int) -> None:
        self.transfer = transfer
        self.tokens = tokens
        self.copy = copy  # where in the pinned memory the kernel tells
        self.kept = kept  # rows and slots, alive until the kernel has read them
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
        self._counts = torch.zeros(3, dtype=torch.int64, device=device)  # mismatched, unseen; and see Kernels
        self._told = Pinned(SIGNED + 1, torch)
        self._staging = Pinned(STAGED, torch)
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
        self._loose = False  # our stream may still read slots that nothing below stands for
        self._signings = 0  # since the start
        self._signing: dict[int, tuple[int, Any, Any, int]] = {}  # transfer -> number, rows, slots, how many
        self._pending: deque[_Comparison] = deque()
        self._void: deque[tuple[int, ...]] = deque(maxlen=PENDING)  # bounded: the seam that reports them may be off
        self._stream = torch.cuda.Stream(device)
        self._warm_up()

    def _warm_up(self) -> None:
        """Compile and run the kernels on the pool's padding row, before the engine serves. Where the compiled ones can
        be launched directly and then find the same, they are from now on.
        """
        torch = self._torch
        rows = torch.zeros(TRIED, dtype=torch.int64, device=self._device)
        self._found(rows, rows)
        found = self._found(rows, self._staging.at(0, direct=False))
        try:
            self.kernels.launch_directly()
            if (otherwise := self._found(rows, self._staging.at(0, direct=True))) != found:
                raise ValueError(f"{otherwise} instead of {found}")
        except Exception as error:  # not this Triton, not this driver
            logger.info("hicache-witness: Triton launches the kernels: %r", error)
            self.kernels.launch_by_triton()
        torch.cuda.synchronize(self._device)
        for table in (self._counts, self._seen, self.signatures, self._told.tensor):
            table.zero_()
        torch.cuda.synchronize(self._device)

    def _found(self, rows: Any, slots: Any) -> list[int]:
        """What the kernels say to a slot that they have never seen, to an intact one, and to a damaged one."""
        torch, kernels, told = self._torch, self.kernels, self._told
        found: list[int] = []
        for table in (self._counts, self._seen, self.signatures):
            table.zero_()
        sign = lambda: kernels.sign(rows, slots, TRIED, told.at(SIGNED, kernels.direct), 7, self._stream)  # noqa: E731
        for step in (None, sign, lambda: self.signatures.add_(1)):
            told.tensor.fill_(NOT_TOLD)
            torch.cuda.synchronize(self._device)
            if step is not None:
                step()
            torch.cuda.synchronize(self._device)
            kernels.compare(rows, slots, TRIED, told.at(0, kernels.direct), self._stream)
            torch.cuda.synchronize(self._device)
            found += [self.signatures[0].item(), *told.numbers[:3], told.numbers[SIGNED]]
        return found

    # -- signing ---------------------------------------------------------------------------------------------

    def backed_up(self, transfer: int, operations: Sequence[Any], ack: Any) -> None:
        host, device = self._joined(operations)
        count = device.numel()
        if not count:  # of other pools' rows only
            return
        slots = self._host(host)
        ack.start_event.wait(self._stream)
        rows = self._rows(device)
        number = self._signings + 1
        self.kernels.sign(rows, slots, count, self._told.at(SIGNED, self.kernels.direct), number, self._stream)
        self._signings = number
        self._signing[transfer] = number, rows, slots, count
        if len(self._signing) > PENDING:  # an engine that never tells of finished backups: stop trusting the oldest
            self.backup_finished(next(iter(self._signing)))

    def backup_finished(self, transfer: int) -> None:
        entry = self._signing.pop(transfer, None)
        if entry is None:
            return
        number, rows, slots, count = entry
        if self._told.numbers[SIGNED] < number:
            self._let_go(rows)  # first: to unsee takes memory, of which there may be none
            self._unsee(slots, count)

    def overwritten(self, host_indices: Any) -> None:
        self._unsee(self._host(host_indices), host_indices.numel())

    def _unsee(self, slots: Any, count: int) -> None:
        if type(slots) is int:
            slots = self._staging.tensor[(slots - self._staging.address) // WORD :]
        with self._torch.cuda.stream(self._stream):
            self._seen.index_fill_(0, slots[:count].to(self._device, non_blocking=True), 0)
        self._let_go(slots)

    def _let_go(self, *kept: Any) -> None:
        """Our stream still uses these, and nothing here keeps them any more."""
        for numbers in kept:
            if type(numbers) is not int and numbers.is_cuda:
                numbers.record_stream(self._stream)
        self._loose = True

    def forget(self) -> None:
        with self._torch.cuda.stream(self._stream):
            self._seen.zero_()
        for _number, rows, slots, _count in self._signing.values():
            self._let_go(rows, slots)
        self._signing.clear()
        for comparison in self._pending:
            comparison.void = True

    # -- comparing -------------------------------------------------------------------------------------------

    def loaded(self, transfer: int, operations: Sequence[Any], ack: Any) -> None:
        started = perf_counter_ns()
        host, device = self._joined(operations)
        tokens = device.numel()
        if not tokens or len(self._pending) >= PENDING:  # of other pools' rows only: no program would run, and tell
            self._void.append((transfer, tokens, 0, tokens, self._mode, self._layers, 0))
            return
        slots = self._host(host)
        copy, told = self._copy, self._told
        told.numbers[copy] = told.numbers[copy + 1] = NOT_TOLD
        ack.finish_event.wait(self._stream)
        rows = self._rows(device)
        self.kernels.compare(rows, slots, tokens, told.at(copy, self.kernels.direct), self._stream)
        self._copy = (copy + 2) % SIGNED
        cost = perf_counter_ns() - started
        self._pending.append(_Comparison(transfer, tokens, copy, (rows, slots), cost))

    def load_finished(self, transfer: int) -> None:
        for comparison in self._pending:
            if comparison.transfer == transfer:
                comparison.unlocked = True

    def left_device(self) -> None:
        for comparison in self._pending:
            if comparison.unlocked and not comparison.void and not self._done(comparison):
                comparison.void = True

    def report(self, write: Callable[..., None]) -> None:
        for result in self._void:
            write(Kind.CONTENT, b"", *result)
        self._void.clear()
        while self._pending and self._done(self._pending[0]):
            comparison = self._pending.popleft()
            mismatched, unseen = self._told.numbers[comparison.copy : comparison.copy + 2]
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

    def _done(self, comparison: _Comparison) -> bool:
        """Both counts are told: which of them arrives first is left open."""
        told, copy = self._told.numbers, comparison.copy
        return told[copy] != NOT_TOLD and told[copy + 1] != NOT_TOLD

    # -- indices ---------------------------------------------------------------------------------------------

    def _joined(self, operations: Sequence[Any]) -> tuple[Any, Any]:
        """(host slots, device slots). Several operations are joined by a kernel on the engine's current stream, later
        than the transfer's events: ours must wait for it, or it would read rows at numbers that are not there yet.
        """
        if len(operations) == 1:
            return operations[0].host_indices, operations[0].device_indices
        both = joined(operations, self._torch)
        self._stream.wait_stream(self._torch.cuda.current_stream(self._device))
        return both

    def _host(self, host: Any) -> Any:
        """Host slots where the kernel can read them: pinned. A copy from pageable memory would wait for the stream."""
        if host.is_cuda:
            return self._plain(host)
        count = host.numel()
        idle = not (self._pending or self._signing)
        full = self._staged + count > STAGED
        if idle and not self._loose:  # nothing of ours is still to be read
            self._staged = 0  # and what was written last is still in the processor's caches
        elif (idle or full) and self._stream.query():
            self._staged, self._loose = 0, False
        first = self._staged
        end = first + count
        if end > STAGED:
            staged = self._torch.empty(count, dtype=self._torch.int64, pin_memory=True)
            staged.numpy()[:] = host.numpy()
            return self._on_device(staged)
        self._staged = end
        self._staging.write(first, host, count)
        return self._staging.at(first, self.kernels.direct)

    def _on_device(self, pinned: Any) -> Any:
        """A copy that our stream makes and owns: the pinned tensor may be dropped at any time, a kernel's may not."""
        with self._torch.cuda.stream(self._stream):
            return pinned.to(self._device, non_blocking=True)

    def _rows(self, device: Any) -> Any:
        """Device slots for our stream; to be kept until it has used them."""
        if not device.is_cuda:
            return self._on_device(device.pin_memory())
        return self._plain(device)

    def _plain(self, numbers: Any) -> Any:
        """As the kernels read them: int64, side by side. Anything else would be read beyond its end."""
        if numbers.dtype is self._torch.int64 and numbers.is_contiguous():
            return numbers
        numbers.record_stream(self._stream)
        with self._torch.cuda.stream(self._stream):
            return numbers.to(self._torch.int64).contiguous()
