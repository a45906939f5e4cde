"""The byte total of one direction of a PCIe link from its wrapping counter, each step with what it is worth."""

from __future__ import annotations

from enum import IntEnum
from typing import NamedTuple

from hicache_exporter.core.pcie_link import WRAP

QUIET_BYTES = 16 << 20
"""What an idle link may show between two idle readings (measured: 0.3 MB/s) and still be called quiet."""


class Gap(IntEnum):
    """What is known of the time between a reading and the one before it, of the same counter."""

    EXACT = 0  # shorter than the fastest possible wrap: its bytes are exact
    QUIET = 1  # longer, a planned rest in which nothing but a short, watched end can have been busy
    UNSAFE = 2  # longer, and a wrap may hide in it: its bytes are a lower bound
    BREAK = 3  # counting began anew: its bytes are unknown and none is counted


class Sample(NamedTuple):
    """The counter was read somewhere between ``before_ns`` and ``after_ns`` (CLOCK_MONOTONIC)."""

    before_ns: int
    after_ns: int
    total: int
    gap: Gap


class Rest(NamedTuple):
    """The pause before a reading, planned because the link was idle.

    ``planned_ns``: how long it was to be. ``active_since_ns``: an engine may have been active from then on, which the
    watch noticed; None: none was.
    """

    planned_ns: int
    active_since_ns: int | None


_EXACT = Gap.EXACT
# bound once: this runs every 20 ms with cold caches, where whatever is looked up takes several times as long


class PcieMeter:
    """Turns the readings of one counter, which shows the low 32 bits, into a total: never more than really passed."""

    def __init__(self, wrap_ns: int, total: int = 0) -> None:
        self.total = total
        self._wrap_ns = wrap_ns
        self._reading = self._before_ns = 0

    def begin(self, before_ns: int, reading: int) -> Gap:
        """The first reading of a session (probe started, device back): the base, no bytes."""
        self._reading, self._before_ns = reading, before_ns
        return Gap.BREAK

    def advance(self, before_ns: int, after_ns: int, reading: int, rest: Rest | None = None) -> Gap:
        """The next reading, taken between two moments, ``rest`` after the one before or under load."""
        gap_ns = after_ns - self._before_ns
        step = (reading - self._reading) % WRAP
        self.total += step
        self._reading, self._before_ns = reading, before_ns
        return _EXACT if gap_ns <= self._wrap_ns else self._long_gap(gap_ns, after_ns, step, rest)

    def _long_gap(self, gap_ns: int, after_ns: int, step: int, rest: Rest | None) -> Gap:
        if rest is None or gap_ns - rest.planned_ns > self._wrap_ns:
            return Gap.UNSAFE
        active_ns = 0 if rest.active_since_ns is None else after_ns - rest.active_since_ns
        if active_ns > self._wrap_ns or step > QUIET_BYTES + WRAP * active_ns // self._wrap_ns:
            return Gap.UNSAFE
        return Gap.QUIET
