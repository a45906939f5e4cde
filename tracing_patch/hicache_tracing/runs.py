"""Host slots of an operation as runs of consecutive slots: what the ledger follows, since tree nodes split."""

from __future__ import annotations

from typing import Any

from hicache_tracing.records import MAX_RUNS, RUN

FEW = 1024  # up to here a loop over the slots takes less than the array library's first call after a forward pass
FEW_PAGES = 128  # and up to here one over the pages takes less than all of the slots at once

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
    if 1 < page < count <= FEW_PAGES * page and not count % page:
        slots = indices.numpy()
        firsts = slots[::page].tolist()
        if slots[page - 1 :: page].tolist() == [first + page - 1 for first in firsts]:
            return _of_few(firsts, page)
    return _of_few(indices.tolist()) if count <= FEW else _of_many(indices.numpy())


def _of_few(slots: list[int], size: int = 1) -> Runs:
    """``slots``: the first of each piece of ``size`` consecutive ones."""
    if not slots:
        return 0, 1, b""
    runs = []
    first = end = slots[0]
    for slot in slots:
        if slot != end:
            runs.append(RUN.pack(first, end - first))
            first = slot
        end = slot + size
    runs.append(RUN.pack(first, end - first))
    return len(runs), 1, b"".join(runs)


def _of_many(slots: Any) -> Runs:
    """The same, vectorised, of an array."""
    count = len(slots)
    breaks = ((slots[1:] - slots[:-1]) != 1).nonzero()[0] + 1  # where each run but the first begins
    if len(breaks) == 0:
        return 1, 1, RUN.pack(int(slots[0]), count)
    complete = len(breaks) < MAX_RUNS
    runs = len(breaks) + 1 if complete else MAX_RUNS
    starts = breaks.copy()
    starts.resize(runs, refcheck=False)
    starts[1:] = breaks[: runs - 1]
    starts[0] = 0
    stops = starts.copy()
    stops[:-1] = starts[1:]
    stops[-1] = count if complete else breaks[runs - 1]
    table = slots[starts].repeat(2)
    table[1::2] = stops - starts
    return runs, int(complete), table.astype("<u4").tobytes()
