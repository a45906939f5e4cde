"""A hardware counter that shows only its low 32 bits, kept as a full total."""

from __future__ import annotations

WRAP = 1 << 32


class Wrap32:
    """Sums a cumulative 32-bit counter. Exact as long as fewer than 2**32 units pass between two readings."""

    __slots__ = ("_last", "total")

    def __init__(self, total: int = 0) -> None:
        self.total = total
        self._last: int | None = None

    def begin(self, reading: int) -> None:
        """Counts from this reading on; what passed before it stays uncounted."""
        self._last = reading % WRAP

    def advance(self, reading: int) -> int:
        """Units since the last reading, modulo 2**32: never more than really passed. Raises ValueError before begin."""
        if self._last is None:
            raise ValueError("advance before begin: there is no reading to count from")
        step = (reading - self._last) % WRAP
        self._last = reading % WRAP
        self.total += step
        return step
