"""The fused NH kernel: one read of the rows, one signature a slot, stored or compared in the same launch.

What differs between operations (the count of slots, where index tensors happen to lie) is kept out of Triton's
specialisation: a kernel that were compiled anew for it would stop the scheduler for half a second.
"""

from __future__ import annotations

from typing import Any

import triton
import triton.language as tl

SLOTS = 4  # slots a program: they share the loaded keys
WORDS = 128  # 64-bit words of a row at a time
WARPS = 2

_pointers = ["pointers", "keys", "rows", "slots", "signatures", "seen"]


@triton.jit
def _signatures(
    pointers, keys, rows, count, BUFFERS: tl.constexpr, WIDTH: tl.constexpr, STRIDE: tl.constexpr,
    SLOTS: tl.constexpr, WORDS: tl.constexpr,
):  # fmt: skip
    """Signatures of SLOTS slots: (SLOTS,) int64, summed over all buffers and words modulo 2**64."""
    offset = tl.program_id(0) * SLOTS + tl.arange(0, SLOTS)
    live = offset < count
    row = tl.load(rows + offset, mask=live, other=0)
    total = tl.zeros((SLOTS,), dtype=tl.int64)
    column = tl.arange(0, WORDS)
    for buffer in range(BUFFERS):
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
    return total, offset, live


@triton.jit(do_not_specialize=["count"], do_not_specialize_on_alignment=_pointers)
def _sign(
    pointers, keys, rows, slots, signatures, seen, count,
    BUFFERS: tl.constexpr, WIDTH: tl.constexpr, STRIDE: tl.constexpr, SLOTS: tl.constexpr, WORDS: tl.constexpr,
):  # fmt: skip
    total, offset, live = _signatures(pointers, keys, rows, count, BUFFERS, WIDTH, STRIDE, SLOTS, WORDS)
    slot = tl.load(slots + offset, mask=live, other=0)
    tl.store(signatures + slot, total, mask=live)
    tl.store(seen + slot, tl.full((SLOTS,), 1, dtype=tl.int8), mask=live)


@triton.jit(do_not_specialize=["count"], do_not_specialize_on_alignment=[*_pointers, "counts"])
def _compare(
    pointers, keys, rows, slots, signatures, seen, count, counts,
    BUFFERS: tl.constexpr, WIDTH: tl.constexpr, STRIDE: tl.constexpr, SLOTS: tl.constexpr, WORDS: tl.constexpr,
):  # fmt: skip
    total, offset, live = _signatures(pointers, keys, rows, count, BUFFERS, WIDTH, STRIDE, SLOTS, WORDS)
    slot = tl.load(slots + offset, mask=live, other=0)
    known = tl.load(seen + slot, mask=live, other=1) != 0
    wrong = live & known & (tl.load(signatures + slot, mask=live, other=0) != total)
    unseen = live & (known == 0)
    mismatches = tl.sum(wrong.to(tl.int64))
    strangers = tl.sum(unseen.to(tl.int64))
    tl.atomic_add(counts, mismatches, mask=mismatches > 0)
    tl.atomic_add(counts + 1, strangers, mask=strangers > 0)


class Kernels:
    """Both kernels bound to the tables of one pool: ``sign(rows, slots)``, ``compare(rows, slots)``.

    ``rows`` device slots (int64, on the GPU), ``slots`` host slots (int64, on the GPU or in pinned memory). Launches
    on the current stream, never waits.
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
        self._sources = (pointers, keys)
        self._tables = (signatures, seen)
        self._counts = counts
        self._shape = {"BUFFERS": buffers, "WIDTH": width, "STRIDE": stride, "SLOTS": SLOTS, "WORDS": WORDS}

    def sign(self, rows: Any, slots: Any) -> None:
        count = rows.numel()
        grid = (-(-count // SLOTS),)
        _sign[grid](*self._sources, rows, slots, *self._tables, count, num_warps=WARPS, **self._shape)

    def compare(self, rows: Any, slots: Any) -> None:
        count = rows.numel()
        grid = (-(-count // SLOTS),)
        _compare[grid](*self._sources, rows, slots, *self._tables, count, self._counts, num_warps=WARPS, **self._shape)
