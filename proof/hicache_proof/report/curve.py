"""A curve of two lines, read from L2 and computed, over the rungs of a ladder: numbers for the SVG template. Pure."""

from __future__ import annotations

import math
from typing import NamedTuple

from hicache_proof.lab.ladder import Ladder
from hicache_proof.report import scale
from hicache_proof.stats import Summary

_LEFT, _RIGHT = 70, 930
_TOP, _BOTTOM = 36, 280
HEIGHT = 330
_INSET = 30
"""Between the axis and the first rung."""


class Tick(NamedTuple):
    at: float
    label: str


class Dot(NamedTuple):
    x: float
    y: float
    low: float
    high: float
    title: str


class Line(NamedTuple):
    """``kind`` is a class of the style sheet."""

    kind: str
    name: str
    dots: tuple[Dot, ...]
    path: str


class Curve(NamedTuple):
    height: int
    title: str
    across: str
    lines: tuple[Line, ...]
    x_ticks: tuple[Tick, ...]
    y_ticks: tuple[Tick, ...]
    mark: float | None
    """Where the break-even is estimated."""
    band: tuple[float, float] | None


def draw(ladder: Ladder) -> Curve:
    """Lengths double from rung to rung more often than they grow by steps, so the axis across is logarithmic."""
    by_length = ladder.break_even is not None
    values = [rung.prefix_tokens if by_length else rung.at_once for rung in ladder.rungs]
    highest = max(_end(summary) for rung in ladder.rungs for summary in (rung.read, rung.miss))
    axis = scale.milliseconds(1e3 * highest)
    first, last = values[0], values[-1]
    reads = [(value, rung.read) for value, rung in zip(values, ladder.rungs, strict=True)]
    misses = [(value, rung.miss) for value, rung in zip(values, ladder.rungs, strict=True)]
    estimate = ladder.break_even.estimate if ladder.break_even is not None else None
    return Curve(
        height=HEIGHT,
        title="TTFT over the prefix length" if by_length else "TTFT over the number of requests at once",
        across="prefix tokens" if by_length else "requests at once",
        lines=(
            _line("series-C", "read from L2", reads, axis, first, last),
            _line("series-control", "computed", misses, axis, first, last),
        ),
        x_ticks=tuple(Tick(_x(value, first, last), f"{value:,}") for value in values),
        y_ticks=tuple(Tick(_y(value, axis), label) for value, label in zip(axis.ticks, axis.labels, strict=True)),
        mark=None if estimate is None else _x(estimate, first, last),
        band=_band(ladder, first, last),
    )


def _band(ladder: Ladder, first: int, last: int) -> tuple[float, float] | None:
    found = ladder.break_even
    if found is None or found.estimate is None:
        return None
    low, high = found.low or first, found.high or last
    return _x(low, first, last), _x(high, first, last)


def _line(kind: str, name: str, points: list[tuple[int, Summary]], axis: scale.Axis, first: int, last: int) -> Line:
    dots = tuple(_dot(name, value, summary, axis, first, last) for value, summary in points)
    return Line(kind, name, dots, " ".join(f"{dot.x},{dot.y}" for dot in dots))


def _dot(name: str, value: int, summary: Summary, axis: scale.Axis, first: int, last: int) -> Dot:
    middle = 1e3 * summary.median
    interval = summary.interval
    low, high = (middle, middle) if interval is None else (1e3 * interval.low, 1e3 * interval.high)
    title = f"{value:,}: {name}, median {middle:,.1f} ms"
    return Dot(_x(value, first, last), _y(middle, axis), _y(low, axis), _y(high, axis), title)


def _end(summary: Summary) -> float:
    return summary.interval.high if summary.interval is not None else summary.median


def _x(value: float, first: int, last: int) -> float:
    if first == last:
        return (_LEFT + _RIGHT) / 2
    share = math.log(value / first) / math.log(last / first)
    return round(_LEFT + _INSET + min(max(share, 0.0), 1.0) * (_RIGHT - _LEFT - 2 * _INSET), 1)


def _y(milliseconds: float, axis: scale.Axis) -> float:
    return round(_BOTTOM - axis.share(milliseconds) * (_BOTTOM - _TOP), 1)
