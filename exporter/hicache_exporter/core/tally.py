"""What the parts of a ring's ledger share: where they count, the batch at hand, the ring's place in the calendar."""

from __future__ import annotations

from dataclasses import dataclass

from hicache_exporter.core.totals import Totals


@dataclass(frozen=True, slots=True)
class RingClock:
    """Places the monotonic times of a ring in the calendar."""

    monotonic_ns: int
    wall_ns: int

    def epoch_ns(self, t_ns: int) -> int:
        return self.wall_ns + t_ns - self.monotonic_ns

    def wall(self, t_ns: int) -> float:
        """Seconds since the epoch."""
        return self.epoch_ns(t_ns) / 1e9


class Tally:
    """Where the facts of the batch at hand are counted: the rank's totals, or nowhere that is shown (old facts)."""

    __slots__ = ("extras", "totals")

    def __init__(self, totals: Totals) -> None:
        self.totals = totals
        self.extras: dict[int, bytes] = {}

    def extra(self, seq: int) -> bytes:
        """The further bytes of a record of the batch."""
        return self.extras.get(seq, b"")

    def forgot(self, what: str, count: int) -> None:
        self.totals.forgotten[what] += count
