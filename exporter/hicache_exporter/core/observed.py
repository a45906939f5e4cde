"""A histogram that counts for ever, with the latest exemplar of each bucket."""

from __future__ import annotations

from bisect import bisect_left
from typing import NamedTuple


class Sampled(NamedTuple):
    """One observation that a trace can be found for."""

    value: float
    trace_id: str
    at: float
    """Seconds since the epoch."""


class Histogram:
    """``bounds`` are the upper bounds of the buckets, in rising order, without +Inf."""

    __slots__ = ("bounds", "counts", "exemplars", "total")

    def __init__(self, bounds: tuple[float, ...]) -> None:
        self.bounds = bounds
        self.counts = [0] * (len(bounds) + 1)
        self.exemplars: dict[int, Sampled] = {}
        self.total = 0.0

    def observe(self, value: float, exemplar: Sampled | None = None) -> None:
        bucket = bisect_left(self.bounds, value)
        self.counts[bucket] += 1
        self.total += value
        if exemplar is not None:
            self.exemplars[bucket] = exemplar

    def mark(self, exemplar: Sampled) -> None:
        """Give an exemplar to an observation that was counted before; one that was not counted gets none."""
        bucket = bisect_left(self.bounds, exemplar.value)
        if self.counts[bucket]:
            self.exemplars[bucket] = exemplar

    def add(self, other: Histogram) -> None:
        """Add another histogram with the same bounds; the later exemplar of a bucket stays."""
        for bucket, count in enumerate(other.counts):
            self.counts[bucket] += count
        self.total += other.total
        for bucket, exemplar in other.exemplars.items():
            mine = self.exemplars.get(bucket)
            if mine is None or mine.at <= exemplar.at:
                self.exemplars[bucket] = exemplar

    @property
    def count(self) -> int:
        return sum(self.counts)
