"""The fused NH kernel: one read of the rows, one signature a slot, stored or compared in the same launch."""

from __future__ import annotations

from typing import Any

import triton
import triton.language as tl

SLOTS = 8  # slots a program: shares the loaded keys
WORDS = 128  # 64-bit words of a row at a time


@triton.jit
def _signatures(pointers, keys, rows, count, buffers, words, stride, SLOTS: tl.constexpr, WORDS: tl.constexpr):
    """Signatures of SLOTS slots: (SLOTS,) int64, summed over all buffers and words modulo 2**64."""
    offset = tl.program_id(0) * SLOTS + tl.arange(0, SLOTS)
    live = offset < count
    row = tl.load(rows + offset, mask=live, other=0)
    total = tl.zeros((SLOTS,), dtype=tl.int64)
    column = tl.arange(0, WORDS)
    for buffer in range(buffers):
        base = tl.load(pointers + buffer).to(tl.pointer_type(tl.int64))
        for first in range(0, words, WORDS):
            inside = first + column < words
            key = tl.load(keys + buffer * words + first + column, mask=inside, other=0)
            where = row[:, None] * stride + (first + column)[None, :]
            word = tl.load(base + where, mask=live[:, None] & inside[None, :], other=0)
            low = (word.to(tl.uint32) + key.to(tl.uint32)[None, :]).to(tl.uint64)
            high = ((word >> 32).to(tl.uint32) + (key >> 32).to(tl.uint32)[None, :]).to(tl.uint64)
            product = tl.where(inside[None, :], low * high, 0)
            total += tl.sum(product, axis=1).to(tl.int64)
    return total, offset, live


@triton.jit
def _sign(
    pointers, keys, rows, slots, signatures, seen, count, buffers, words, stride,
    SLOTS: tl.constexpr, WORDS: tl.constexpr,
):  # fmt: skip
    total, offset, live = _signatures(pointers, keys, rows, count, buffers, words, stride, SLOTS, WORDS)
    slot = tl.load(slots + offset, mask=live, other=0)
    tl.store(signatures + slot, total, mask=live)
    tl.store(seen + slot, tl.full((SLOTS,), 1, dtype=tl.int8), mask=live)


@triton.jit
def _compare(
    pointers, keys, rows, slots, signatures, seen, counts, count, buffers, words, stride,
    SLOTS: tl.constexpr, WORDS: tl.constexpr,
):  # fmt: skip
    total, offset, live = _signatures(pointers, keys, rows, count, buffers, words, stride, SLOTS, WORDS)
    slot = tl.load(slots + offset, mask=live, other=0)
    known = tl.load(seen + slot, mask=live, other=1) != 0
    wrong = live & known & (tl.load(signatures + slot, mask=live, other=0) != total)
    unseen = live & (known == 0)
    tl.atomic_add(counts, tl.sum(wrong.to(tl.int64)))
    tl.atomic_add(counts + 1, tl.sum(unseen.to(tl.int64)))


def sign(witness: Any, rows: Any, slots: Any) -> None:
    """Store the signatures of ``rows`` (device slots, int64) under ``slots`` (host slots, int32)."""
    count = rows.numel()
    _sign[(triton.cdiv(count, SLOTS),)](
        witness._pointers, witness._keys, rows, slots, witness._signatures, witness._seen,
        count, len(witness._buffers), witness._words, witness._stride, SLOTS=SLOTS, WORDS=WORDS,
    )  # fmt: skip


def compare(witness: Any, rows: Any, slots: Any) -> None:
    """Add the numbers of mismatched and unseen slots to the witness's running counts."""
    count = rows.numel()
    _compare[(triton.cdiv(count, SLOTS),)](
        witness._pointers, witness._keys, rows, slots, witness._signatures, witness._seen, witness._counts,
        count, len(witness._buffers), witness._words, witness._stride, SLOTS=SLOTS, WORDS=WORDS,
    )  # fmt: skip
