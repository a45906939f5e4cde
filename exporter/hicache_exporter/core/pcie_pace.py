"""How often the PCIe counters must be read under load, and the recorders looked at while the link rests."""

from __future__ import annotations

MILLISECOND = 1_000_000


class Pace:
    """The rhythm for one machine, from the shortest wrap time of its GPUs (67 ms for generation 5, 16 lanes).

    Under load each reading is of one direction, in turn: one every 20 ms, so each direction every 40 ms, and on a
    faster link so often that a direction is read after three fifths of its wrap time. A burst may begin at any time
    at the link's full speed, so what passed lately allows no slower rhythm. At rest: both directions every two seconds,
    while the recorders of the engines (a memory read each) are looked at often enough that no wrap fits between two
    looks.
    """

    HOLD_NS = 1_000 * MILLISECOND
    IDLE_NS = 2_000 * MILLISECOND

    def __init__(self, wrap_ns: int) -> None:
        self.turn_ns = min(20 * MILLISECOND, wrap_ns * 3 // 10)
        self.look_ns = min(wrap_ns * 17 // 20, self.IDLE_NS)
