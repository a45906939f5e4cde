"""Host slots of an operation as runs of consecutive slots: what the ledger follows, since tree nodes split."""

from __future__ import annotations

from typing import Any

from hicache_tracing.records import MAX_RUNS, RUN

FEW = 64  # up to here a loop takes less than the array library, which a forward pass pushes out of the caches

Runs = tuple[int, int, bytes]


def host_runs(indices: Any, page: int = 1) -> Runs:
    """(number of runs, 1 if they are complete, packed runs) of a host index tensor (int64, on the CPU).

    At most MAX_RUNS runs are packed; beyond that, and for indices that live on a device (reading them would wait for
    it), the runs are incomplete and the ledger must not conclude anything from them. ``page``: slots that the engine
    gives out together; of each page only the first and the last are read. O(slots).
    """
    if indices is None or not indices.is_cpu:
        return 0, 0, b""
    count = indices.numel()
    if count <= FEW:
        return _of_few(indices.tolist(), 1)
    slots = indices.numpy()
    piece = page if page > 1 and _in_pages(slots, page) else 1
    firsts = slots[::piece]
    if len(firsts) > FEW:
        return _of_many(firsts, piece)
    steps = (firsts[1:] - slots[piece - 1 : -1 : piece]).tolist()
    if steps.count(1) == len(steps):  # small integers, counted without a loop of ours
        return 1, 1, RUN.pack(slots.item(0), count)
    return _of_few(firsts.tolist(), piece)


def _in_pages(slots: Any, page: int) -> bool:
    """Whether they are whole pages of consecutive slots, two of them or more."""
    pages, rest = divmod(len(slots), page)
    if pages < 2 or rest:
        return False
    lengths: list[int] = (slots[page - 1 :: page] - slots[::page]).tolist()
    return lengths.count(page - 1) == pages


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
    count = len(firsts)
    breaks = ((firsts[1:] - firsts[:-1]) != piece).nonzero()[0] + 1  # where each run but the first begins
    if len(breaks) == 0:
        return 1, 1, RUN.pack(firsts.item(0), count * piece)
    complete = len(breaks) < MAX_RUNS
    runs = len(breaks) + 1 if complete else MAX_RUNS
    starts = breaks.copy()
    starts.resize(runs, refcheck=False)
    starts[1:] = breaks[: runs - 1]
    starts[0] = 0
    stops = starts.copy()
    stops[:-1] = starts[1:]
    stops[-1] = count if complete else breaks[runs - 1]
    table = firsts[starts].repeat(2)
    table[1::2] = (stops - starts) * piece
    return runs, int(complete), table.astype("<u4").tobytes()
