"""Host slots of an operation as runs of consecutive slots: what the ledger follows, since tree nodes split."""

from __future__ import annotations

from typing import Any

from hicache_tracing.records import MAX_RUNS, RUN


def host_runs(indices: Any) -> tuple[int, int, bytes]:
    """(number of runs, 1 if they are complete, packed runs) of a host index tensor (int64, on the CPU).

    At most MAX_RUNS runs are packed; beyond that, and for indices that live on a device (reading them would wait for
    it), the runs are incomplete and the ledger must not conclude anything from them. O(slots), vectorised.
    """
    if indices is None or getattr(indices, "is_cuda", False) or indices.device.type != "cpu":
        return 0, 0, b""
    count = indices.numel()
    if count == 0:
        return 0, 1, b""
    slots = indices.detach()
    breaks = ((slots[1:] - slots[:-1]) != 1).nonzero().flatten()
    runs = breaks.numel() + 1
    if runs == 1:
        return 1, 1, RUN.pack(int(slots[0]), count)
    kept = min(runs, MAX_RUNS)
    table = slots.new_empty((kept, 2))
    starts = breaks[: kept - 1] + 1
    table[0, 0] = slots[0]
    table[1:, 0] = slots[starts]
    ends = slots.new_empty(kept)
    ends[: kept - 1] = starts
    ends[kept - 1] = count if kept == runs else int(breaks[kept - 1]) + 1
    table[0, 1] = ends[0]
    table[1:, 1] = ends[1:] - ends[:-1]
    return kept, int(kept == runs), table.int().numpy().tobytes()
