"""The fused NH kernel: one read of the rows, one signature a slot, stored or compared in the same launch.

What differs between operations (the count of slots, where index tensors happen to lie) is kept out of Triton's
specialisation: a kernel that were compiled anew for it would stop the scheduler for half a second.

The slot numbers are read first: they lie in host memory, and what they take to arrive passes while the rows are read.
"""

from __future__ import annotations

from typing import Any

import triton
import triton.language as tl

from hicache_tracing.witness.launch import ByDriver, ByTriton

SLOTS = 4  # slots a program: they share the loaded keys
WORDS = 128  # 64-bit words of a row at a time
FEW = tl.constexpr(2)  # buffers

_pointers = ["pointers", "keys", "signatures", "seen", "counts", "rows", "slots", "told"]


@triton.jit
def _products(
    buffer, pointers, keys, row, live, WIDTH: tl.constexpr, STRIDE: tl.constexpr,
    SLOTS: tl.constexpr, WORDS: tl.constexpr,
):  # fmt: skip
    """What one buffer adds to the signatures of SLOTS rows: (SLOTS,) int64."""
    total = tl.zeros((SLOTS,), dtype=tl.int64)
    column = tl.arange(0, WORDS)
    base = tl.load(pointers + buffer).to(tl.pointer_type(tl.int64))
    for first in tl.static_range(0, WIDTH, WORDS):
        inside = first + column < WIDTH
        key = tl.load(keys + buffer * WIDTH + first + column, mask=inside, other=0)
        where = row[:, None] * STRIDE + (first + column)[None, :]
        word = tl.load(base + where, mask=live[:, None] & inside[None, :], other=0)
        low = (word.to(tl.uint32) + key.to(tl.uint32)[None, :]).to(tl.uint64)
        high = ((word >> 32).to(tl.uint32) + (key >> 32).to(tl.uint32)[None, :]).to(tl.uint64)
        product = tl.where(inside[None, :], low * high, 0)
        total += tl.sum(product, axis=1).to(tl.int64)
    return total


@triton.jit
def _signatures(
    pointers, keys, rows, offset, live, BUFFERS: tl.constexpr, WIDTH: tl.constexpr, STRIDE: tl.constexpr,
    SLOTS: tl.constexpr, WORDS: tl.constexpr,
):  # fmt: skip
    """Signatures of SLOTS slots: (SLOTS,) int64, summed over all buffers and words modulo 2**64."""
    row = tl.load(rows + offset, mask=live, other=0)
    total = tl.zeros((SLOTS,), dtype=tl.int64)
    if BUFFERS <= FEW:  # sampled mode: all that is to be read is asked for at once
        for few in tl.static_range(BUFFERS):
            total += _products(few, pointers, keys, row, live, WIDTH, STRIDE, SLOTS, WORDS)
    else:
        for buffer in range(BUFFERS):
            total += _products(buffer, pointers, keys, row, live, WIDTH, STRIDE, SLOTS, WORDS)
    return total


@triton.jit
def _last(counts):
    """Whether all programs of this launch have read what they work on, and this one is the last to say so."""
    tl.debug_barrier()  # all warps of this one
    last = tl.atomic_add(counts + 2, 1) == tl.num_programs(0) - 1
    if last:
        tl.store(counts + 2, tl.zeros((), dtype=tl.int64))
    return last


@triton.jit(do_not_specialize=["count", "number"], do_not_specialize_on_alignment=_pointers)
def _sign(
    pointers, keys, signatures, seen, counts, rows, slots, count, told, number,
    BUFFERS: tl.constexpr, WIDTH: tl.constexpr, STRIDE: tl.constexpr, SLOTS: tl.constexpr, WORDS: tl.constexpr,
):  # fmt: skip
    offset = tl.program_id(0) * SLOTS + tl.arange(0, SLOTS)
    live = offset < count
    slot = tl.load(slots + offset, mask=live, other=0)
    total = _signatures(pointers, keys, rows, offset, live, BUFFERS, WIDTH, STRIDE, SLOTS, WORDS)
    tl.store(signatures + slot, total, mask=live)
    tl.store(seen + slot, tl.full((SLOTS,), 1, dtype=tl.int8), mask=live)
    if _last(counts):
        tl.store(told, number.to(tl.int64))


@triton.jit(do_not_specialize=["count"], do_not_specialize_on_alignment=_pointers)
def _compare(
    pointers, keys, signatures, seen, counts, rows, slots, count, told,
    BUFFERS: tl.constexpr, WIDTH: tl.constexpr, STRIDE: tl.constexpr, SLOTS: tl.constexpr, WORDS: tl.constexpr,
):  # fmt: skip
    offset = tl.program_id(0) * SLOTS + tl.arange(0, SLOTS)
    live = offset < count
    slot = tl.load(slots + offset, mask=live, other=0)
    known = tl.load(seen + slot, mask=live, other=1) != 0
    signed = tl.load(signatures + slot, mask=live, other=0)
    total = _signatures(pointers, keys, rows, offset, live, BUFFERS, WIDTH, STRIDE, SLOTS, WORDS)
    wrong = live & known & (signed != total)
    unseen = live & (known == 0)
    mismatches = tl.sum(wrong.to(tl.int64))
    strangers = tl.sum(unseen.to(tl.int64))
    tl.atomic_add(counts, mismatches, mask=mismatches > 0)
    tl.atomic_add(counts + 1, strangers, mask=strangers > 0)
    if _last(counts):  # it tells what all of them have counted
        both = tl.arange(0, 2)
        tl.store(told + both, tl.atomic_add(counts + both, tl.zeros((2,), dtype=tl.int64)))


class Kernels:
    """The kernels bound to the tables of one pool. Each is launched on ``stream`` and never waits.

    ``rows`` device slots (int64, on the GPU), ``slots`` host slots (int64, on the GPU or in pinned memory), ``count``
    of them, at least one. ``counts`` three int64 on the GPU: mismatched and unseen since the start, and programs done
    of the launch under way. ``told`` int64 in pinned memory, written once nothing is read any more: by ``sign`` its
    ``number``, by ``compare`` a copy of the first two counts. Where launches are ``direct``, ``slots`` and ``told``
    may be addresses.
    """

    def __init__(
        self,
        pointers: Any,
        keys: Any,
        signatures: Any,
        seen: Any,
        counts: Any,
        *,
        buffers: int,
        width: int,
        stride: int,
    ) -> None:
        tables = (pointers, keys, signatures, seen, counts)
        shape = (buffers, width, stride, SLOTS, WORDS)
        self._by_triton = ByTriton(_sign, tables, shape), ByTriton(_compare, tables, shape)
        self.launch_by_triton()

    def launch_by_triton(self) -> None:
        self._sign: ByTriton | ByDriver
        self._compare: ByTriton | ByDriver
        self._sign, self._compare = self._by_triton
        self.direct = False

    def launch_directly(self) -> None:
        """What was launched by Triton before. Raises what ``ByDriver`` does, and AttributeError for another Triton."""
        sign, compare = self._by_triton
        self._sign, self._compare = ByDriver(sign), ByDriver(compare)
        self.direct = True

    def sign(self, rows: Any, slots: Any, count: int, told: Any, number: int, stream: Any) -> None:
        self._sign(stream, -(-count // SLOTS), rows, slots, count, told, number)

    def compare(self, rows: Any, slots: Any, count: int, told: Any, stream: Any) -> None:
        self._compare(stream, -(-count // SLOTS), rows, slots, count, told)
