"""Host slots of an operation as runs of consecutive slots: what the ledger follows, since tree nodes split."""

from __future__ import annotations

from operator import sub
from typing import Any

from hicache_tracing.records import MAX_RUNS, RUN

FEW = 384  # pieces; up to here lists take less than the array library, which a forward pass pushes out of the caches

Runs = tuple[int, int, bytes]


def host_runs(indices: Any, page: int = 1) -> Runs:
    """(number of runs, 1 if they are complete, packed runs) of a host index tensor (int64, on the CPU).

    At most MAX_RUNS runs are packed; beyond that, and for indices that live on a device (reading them would wait for
    it), the runs are incomplete and the ledger must not conclude anything from them. ``page``: slots that the engine
    gives out together; of two pages or more only the first and the last of each are read. O(slots).
    """
    if indices is None or not indices.is_cpu:
        return 0, 0, b""
    count = indices.numel()
    paged = 1 < page < count and not count % page
    if paged and count <= FEW * page:
        firsts, lasts = indices[::page].tolist(), indices[page - 1 :: page].tolist()
        if list(map(sub, lasts, firsts)).count(page - 1) == len(firsts):
            return _of_few(firsts, page)
    if count <= FEW:
        return _of_few(indices.tolist(), 1)
    slots = indices.numpy()
    if paged and (slots[page - 1 :: page] - slots[::page] == page - 1).all():
        return _of_many(slots[::page], page)
    return _of_many(slots, 1)


def _of_few(firsts: list[int], piece: int) -> Runs:
    """``firsts``: the first of each piece of so many consecutive slots."""
    if not firsts:
        return 0, 1, b""
    runs = []
    first = end = firsts[0]
    for slot in firsts:
        if slot != end:
            runs.append(RUN.pack(first, end - first))
            first = slot
        end = slot + piece
    runs.append(RUN.pack(first, end - first))
    return len(runs), 1, b"".join(runs)


def _of_many(firsts: Any, piece: int) -> Runs:
    """The same, vectorised."""
    breaks = ((firsts[1:] - firsts[:-1]) != piece).nonzero()[0]  # the last piece of each run but the last
    if len(breaks) == 0:
        return 1, 1, RUN.pack(firsts.item(0), len(firsts) * piece)
    complete = len(breaks) < MAX_RUNS
    ends = breaks[:MAX_RUNS].copy()
    if complete:
        ends.resize(len(breaks) + 1, refcheck=False)
        ends[-1] = len(firsts) - 1
    ends += 1
    starts = ends.copy()
    starts[1:] = ends[:-1]
    starts[0] = 0
    table = firsts[starts].repeat(2)
    table[1::2] = (ends - starts) * piece
    return len(ends), int(complete), table.astype("<u4").tobytes()
