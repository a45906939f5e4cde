"""What happens inside one init_load_back, so that its outcome can be told."""

from __future__ import annotations

from hicache_tracing.records import ABSENT, LoadBackOutcome


class LoadScope:
    __slots__ = ("evicted", "refused", "requested")

    def __init__(self) -> None:
        self.requested = 0
        self.refused = 0
        self.evicted = 0

    def outcome(self, promised: int, loaded: int, threshold: int, quota: int) -> LoadBackOutcome:
        """Why the promise was kept or not."""
        if loaded > 0:
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
