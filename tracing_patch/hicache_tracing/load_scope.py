"""What happens inside one init_load_back, so that its outcome can be told."""

from __future__ import annotations

from hicache_tracing.records import ABSENT, LoadBackOutcome


class LoadScope:
    __slots__ = ("evicted", "moved", "refused", "requested")

    def __init__(self) -> None:
        self.requested = 0
        self.refused = 0
        self.evicted = 0
        self.moved = 0  # host tokens that the cache controller was told to load

    def loaded(self, answered: int, *, hybrid: bool) -> int:
        """Host tokens loaded. A hybrid model's tree answers with all KV that the request may now use, also that which
        never left the device and only waited for state of another kind; a plain tree's answer is its own word, to be
        held against the transfers.
        """
        return self.moved if hybrid and self.requested else answered

    def outcome(self, promised: int, answered: int, threshold: int, quota: int) -> LoadBackOutcome:
        """Why the promise was kept or not."""
        if answered > 0:
            return LoadBackOutcome.LOADED
        if promised <= 0 and not self.requested:
            return LoadBackOutcome.NOTHING
        if self.refused or self.evicted:
            return LoadBackOutcome.NO_ROOM
        if threshold != ABSENT and promised < threshold:
            return LoadBackOutcome.BELOW_THRESHOLD
        if quota != ABSENT and promised > quota:
            return LoadBackOutcome.OVER_QUOTA
        return LoadBackOutcome.UNKNOWN
