"""Which value covers which stretch of whole numbers: the last assignment wins."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator
from typing import Generic, TypeVar

V = TypeVar("V")
Piece = tuple[int, int, V]
"""(start, end, value): half-open"""


class IntervalMap(Generic[V]):
    """Disjoint half-open intervals in rising order. A change costs a bisection and one slice of three lists."""

    __slots__ = ("_ends", "_starts", "_values")

    def __init__(self) -> None:
        self._starts: list[int] = []
        self._ends: list[int] = []
        self._values: list[V] = []

    def __len__(self) -> int:
        return len(self._starts)

    def __iter__(self) -> Iterator[Piece[V]]:
        return zip(self._starts, self._ends, self._values, strict=True)

    def clear(self) -> None:
        self._starts.clear()
        self._ends.clear()
        self._values.clear()

    def assign(self, start: int, end: int, value: V) -> list[Piece[V]]:
        """Cover [start, end) with ``value``. Returns the parts that it covered before, in order."""
        low = bisect_right(self._ends, start)
        if low < len(self._starts) and self._starts[low] == start and self._ends[low] == end:
            before, self._values[low] = self._values[low], value
            return [(start, end, before)]
        return self._put(low, start, end, [start], [end], [value])

    def change(self, start: int, end: int, new: Callable[[int, V], V]) -> None:
        """Put ``new(length, value)`` in the place of every value in [start, end); it is asked once a part."""
        low = bisect_right(self._ends, start)
        high = bisect_left(self._starts, end, low)
        if low < high and self._starts[low] < start:
            self._split(low, start)
            low, high = low + 1, high + 1
        if low < high and self._ends[high - 1] > end:
            self._split(high - 1, end)
        for at in range(low, high):
            self._values[at] = new(self._ends[at] - self._starts[at], self._values[at])

    def _split(self, at: int, place: int) -> None:
        self._starts.insert(at + 1, place)
        self._ends.insert(at, place)
        self._values.insert(at, self._values[at])

    def cut(self, start: int, end: int) -> list[Piece[V]]:
        """Uncover [start, end). Returns the parts that it covered before, in order."""
        return self._put(bisect_right(self._ends, start), start, end, [], [], [])

    def _put(
        self, low: int, start: int, end: int, starts: list[int], ends: list[int], values: list[V]
    ) -> list[Piece[V]]:
        """Put the given pieces, of none or one, in the place of all that covers [start, end)."""
        high = bisect_left(self._starts, end, low)
        replaced = self._clipped(low, high, start, end)
        if low < high:
            if self._starts[low] < start:
                starts.insert(0, self._starts[low])
                ends.insert(0, start)
                values.insert(0, self._values[low])
            if self._ends[high - 1] > end:
                starts.append(end)
                ends.append(self._ends[high - 1])
                values.append(self._values[high - 1])
        self._starts[low:high] = starts
        self._ends[low:high] = ends
        self._values[low:high] = values
        return replaced

    def _clipped(self, low: int, high: int, start: int, end: int) -> list[Piece[V]]:
        return [(max(self._starts[at], start), min(self._ends[at], end), self._values[at]) for at in range(low, high)]
