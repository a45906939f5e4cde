"""When to read the PCIe counters next: often while something moves, rarely while nothing does."""

from __future__ import annotations

MILLISECOND = 1_000_000


class Pace:
    """The rhythm for one machine, from the shortest wrap time of its GPUs.

    Busy: a reading at least every 20 ms, and at least two within a wrap. Idle: one a second, while the recorders of
    the engines (a memory read each) are looked at often enough that no wrap fits between two looks.
    """

    HOLD_NS = 1_000 * MILLISECOND
    IDLE_NS = 1_000 * MILLISECOND

    def __init__(self, wrap_ns: int) -> None:
        self.busy_ns = min(20 * MILLISECOND, wrap_ns // 2)
        self.look_ns = min(wrap_ns * 4 // 5, self.IDLE_NS)
        self._busy_until_ns = 0

    def stir(self, now_ns: int) -> None:
        """Something moved: an engine wrote a record, or bytes passed faster than an idle link shows them."""
        self._busy_until_ns = now_ns + self.HOLD_NS

    def busy(self, now_ns: int) -> bool:
        return now_ns < self._busy_until_ns
