"""Axes: round tick values and times in a unit that a reader can hold. Pure."""

from __future__ import annotations

import math
from typing import NamedTuple


class Axis(NamedTuple):
    """From zero to ``end``; ``ticks`` are round and the last is at or before the end."""

    end: float
    ticks: tuple[float, ...]
    labels: tuple[str, ...]

    def share(self, value: float) -> float:
        """Position on the axis, 0 to 1."""
        return min(max(value / self.end, 0.0), 1.0)


def milliseconds(largest: float, ticks: int = 5) -> Axis:
    """An axis for times up to ``largest`` milliseconds."""
    end = largest * 1.04 or 1.0
    step = _round_step(end / ticks)
    values = tuple(step * index for index in range(int(end / step) + 1))
    decimals = max(0, -math.floor(math.log10(step)))
    return Axis(end, values, tuple(f"{value:,.{decimals}f}" for value in values))


def ago(ns: int) -> str:
    """How long before, for a time that lies in the past (a negative number of nanoseconds)."""
    seconds = -ns / 1e9
    if seconds < 1:
        return f"{seconds * 1e3:.0f} ms before"
    return f"{seconds:.1f} s before" if seconds < 120 else f"{seconds / 60:.0f} min before"


def _round_step(rough: float) -> float:
    """The nearest of 1, 2 and 5 times a power of ten: the next larger one could leave an axis with two ticks."""
    power = 10.0 ** math.floor(math.log10(rough))
    return min((factor * power for factor in (1, 2, 5, 10)), key=lambda step: abs(math.log(step / rough)))
