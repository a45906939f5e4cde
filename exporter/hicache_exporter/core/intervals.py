"""Which value covers which stretch of whole numbers: the last assignment wins."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from typing import Generic, TypeVar

V = TypeVar("V")


class IntervalMap(Generic[V]):
    """Disjoint half-open intervals in rising order. An assignment costs a bisection and one slice of three lists."""

    __slots__ = ("_ends", "_starts", "_values")

    def __init__(self) -> None:
        self._starts: list[int] = []
        self._ends: list[int] = []
        self._values: list[V] = []

    def __len__(self) -> int:
        return len(self._starts)

    def __iter__(self) -> Iterator[tuple[int, int, V]]:
        return zip(self._starts, self._ends, self._values, strict=True)

    def clear(self) -> None:
        self._starts.clear()
        self._ends.clear()
        self._values.clear()

    def within(self, start: int, end: int) -> list[tuple[int, int, V]]:
        """The parts of the intervals that lie in [start, end), in order."""
        low = bisect_right(self._ends, start)
        high = bisect_left(self._starts, end, low)
        return self._clipped(low, high, start, end)

    def assign(self, start: int, end: int, value: V) -> list[tuple[int, int, V]]:
        """Cover [start, end) with ``value``. Returns the parts that it covered before, in order."""
        return self._put(start, end, [(start, end, value)])

    def cut(self, start: int, end: int) -> list[tuple[int, int, V]]:
        """Uncover [start, end). Returns the parts that it covered before, in order."""
        return self._put(start, end, [])

    def _put(self, start: int, end: int, pieces: list[tuple[int, int, V]]) -> list[tuple[int, int, V]]:
        low = bisect_right(self._ends, start)
        high = bisect_left(self._starts, end, low)
        replaced = self._clipped(low, high, start, end)
        if low < high:
            if self._starts[low] < start:
                pieces.insert(0, (self._starts[low], start, self._values[low]))
            if self._ends[high - 1] > end:
                pieces.append((end, self._ends[high - 1], self._values[high - 1]))
        self._starts[low:high] = [piece[0] for piece in pieces]
        self._ends[low:high] = [piece[1] for piece in pieces]
        self._values[low:high] = [piece[2] for piece in pieces]
        return replaced

    def _clipped(self, low: int, high: int, start: int, end: int) -> list[tuple[int, int, V]]:
        return [(max(self._starts[at], start), min(self._ends[at], end), self._values[at]) for at in range(low, high)]
