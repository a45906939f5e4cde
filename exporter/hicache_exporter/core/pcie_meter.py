"""PCIe byte totals of one GPU from its wrapping counters, each step with a statement of what it is worth."""

from __future__ import annotations

from enum import IntEnum
from typing import NamedTuple

from hicache_exporter.core.wrap32 import WRAP, Wrap32

QUIET_BYTES = 16 << 20
"""What an idle link may show between two idle readings (measured: 0.3 MB/s) and still be called quiet."""


class Gap(IntEnum):
    """What is known of the time between a reading and the one before it."""

    EXACT = 0  # shorter than the fastest possible wrap: its bytes are exact
    QUIET = 1  # longer, a planned rest in which nothing but a short, watched end can have been busy
    UNSAFE = 2  # longer, and a wrap may hide in it: its bytes are a lower bound
    BREAK = 3  # counting began anew: its bytes are unknown and none is counted


_EXACT = Gap.EXACT
# bound once: this runs every 20 ms with cold caches, where whatever is looked up takes several times as long


class Sample(NamedTuple):
    """The counters were read somewhere between ``before_ns`` and ``after_ns`` (CLOCK_MONOTONIC)."""

    before_ns: int
    after_ns: int
    tx: int
    rx: int
    gap: Gap


class PcieMeter:
    """Turns raw readings into totals. ``tx`` leaves the GPU (device to host), ``rx`` reaches it."""

    def __init__(self, wrap_ns: int, tx: int = 0, rx: int = 0) -> None:
        self.wrap_ns = wrap_ns
        self._tx, self._rx = Wrap32(tx), Wrap32(rx)
        self._last_before_ns = 0

    def begin(self, before_ns: int, after_ns: int, tx: int, rx: int) -> Sample:
        """The first reading of a session (probe started, device back): the base, no bytes."""
        self._tx.begin(tx)
        self._rx.begin(rx)
        self._last_before_ns = before_ns
        return Sample(before_ns, after_ns, self._tx.total, self._rx.total, Gap.BREAK)

    def advance(
        self, before_ns: int, after_ns: int, tx: int, rx: int, rested_ns: int = 0, active_ns: int = 0
    ) -> Sample:
        """The next reading.

        ``rested_ns``: the pause that was planned because the link was idle, 0 under load. ``active_ns``: how long the
        engine can have been active at the end of that pause before the watch noticed it.
        """
        gap_ns = after_ns - self._last_before_ns
        sent, received = self._tx.advance(tx), self._rx.advance(rx)
        gap = _EXACT if gap_ns <= self.wrap_ns else self._long_gap(gap_ns, max(sent, received), rested_ns, active_ns)
        self._last_before_ns = before_ns
        return Sample(before_ns, after_ns, self._tx.total, self._rx.total, gap)

    def _long_gap(self, gap_ns: int, most: int, rested_ns: int, active_ns: int) -> Gap:
        overslept = gap_ns - rested_ns > self.wrap_ns
        explained = QUIET_BYTES + WRAP * active_ns // self.wrap_ns
        if overslept or active_ns > self.wrap_ns or most > explained:
            return Gap.UNSAFE
        return Gap.QUIET
