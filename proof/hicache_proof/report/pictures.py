"""Where everything stands in the two pictures of the report: numbers for the SVG templates. Pure.

Lengths are units of the view box, 960 wide; colours are the style sheet's.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from hicache_proof.lab.run import LabRun, Measured
from hicache_proof.report import scale, timeline, view
from hicache_proof.report.timeline import Event

WIDTH = 960
_BEFORE = 340  # left of it: what happened; right of it, not to scale, what lies before the request
_BREAK = 478
_PLOT = (495, 940)
_ROW = 44
_TOP = 34
_LETTER = 7  # widest guess for one letter of a time


class Tick(NamedTuple):
    x: float
    label: str


class Mark(NamedTuple):
    """One row of the timeline. ``x2`` is None for an instant; ``anchor``: start, end, or inside the bar."""

    y: float
    what: str
    detail: str
    who: str
    x: float
    x2: float | None
    time: str
    time_x: float
    anchor: str
    polled: bool = False
    """Drawn hollow: the bar ends at a poll."""


class TimelinePicture(NamedTuple):
    height: float
    before: tuple[Mark, ...]
    during: tuple[Mark, ...]
    ticks: tuple[Tick, ...]
    break_x: float
    axis_y: float


class Strip(NamedTuple):
    """One series in the TTFT picture."""

    y: float
    name: str
    meaning: str
    dots: tuple[float, ...]
    median_x: float
    median: str
    band: tuple[float, float] | None


class TtftPicture(NamedTuple):
    height: float
    strips: tuple[Strip, ...]
    ticks: tuple[Tick, ...]
    axis_y: float


def draw_timeline(request: Measured) -> TimelinePicture | None:
    found = timeline.of(request)
    if found is None:
        return None
    axis = scale.milliseconds(found.span_ns / 1e6)
    before = tuple(_earlier(event, row) for row, event in enumerate(found.before))
    during = tuple(_mark(event, len(before) + row, axis) for row, event in enumerate(found.during))
    axis_y = _TOP + _ROW * (len(before) + len(during))
    return TimelinePicture(
        height=axis_y + 34,
        before=before,
        during=during,
        ticks=_ticks(axis),
        break_x=_BREAK,
        axis_y=axis_y,
    )


def draw_ttft(run: LabRun) -> TtftPicture:
    series = [(row.series, row.meaning, _seconds(run, row.series)) for row in view.rows(run)]
    axis = scale.milliseconds(max(1e3 * value for _, _, values in series for value in values))
    strips = tuple(_strip(run, row, name, meaning, values, axis) for row, (name, meaning, values) in enumerate(series))
    axis_y = _TOP + _ROW * len(strips)
    return TtftPicture(height=axis_y + 34, strips=strips, ticks=_ticks(axis), axis_y=axis_y)


def _seconds(run: LabRun, series: str) -> list[float]:
    requests: Iterable[Measured] = (
        view.control_requests(run) if series == "control" else (r for r in run.requests if r.series == series)
    )
    return [request.reply.ttft_seconds for request in requests]


def _y(row: int) -> float:
    return _TOP + _ROW * row + _ROW / 2


def _x(axis: scale.Axis, milliseconds: float) -> float:
    left, right = _PLOT
    return round(left + (right - left) * axis.share(milliseconds), 1)


def _ticks(axis: scale.Axis) -> tuple[Tick, ...]:
    return tuple(Tick(_x(axis, value), label) for value, label in zip(axis.ticks, axis.labels, strict=True))


def _earlier(event: Event, row: int) -> Mark:
    x = _BEFORE + 20 * row
    return Mark(_y(row), event.what, event.detail, event.who, x, None, scale.ago(event.start_ns), x + 10, "start")


def _mark(event: Event, row: int, axis: scale.Axis) -> Mark:
    start = event.start_ns / 1e6
    x, x2, time = _x(axis, start), None, f"{start:.2f} ms"
    if event.end_ns is not None:
        end = event.end_ns / 1e6
        x2 = max(_x(axis, end), x + 3)
        time = f"{event.ends} {end - start:.2f} ms"
    time_x, anchor = _beside(x, x2, _LETTER * len(time), hollow=event.polled)
    return Mark(_y(row), event.what, event.detail, event.who, x, x2, time, time_x, anchor, event.polled)


def _beside(x: float, x2: float | None, width: float, *, hollow: bool = False) -> tuple[float, str]:
    """Where a label of that width goes: right of the mark, else inside the bar, else left of it.

    Out of a hollow bar it may reach: it is as legible beyond its end.
    """
    right = x if x2 is None else x2
    if right + 10 + width <= WIDTH:
        return right + 10, "start"
    if hollow and x + 10 + width <= WIDTH:
        return x + 10, "start"
    if x2 is not None and x2 - x >= width + 20:
        return x + 10, "inside"
    return x - 10, "end"


def _strip(run: LabRun, row: int, name: str, meaning: str, seconds: list[float], axis: scale.Axis) -> Strip:
    summary = run.ttft[name]
    interval = summary.interval
    return Strip(
        y=_y(row),
        name=name,
        meaning=meaning,
        dots=tuple(_x(axis, 1e3 * value) for value in seconds),
        median_x=_x(axis, 1e3 * summary.median),
        median=view.milliseconds(summary.median),
        band=None if interval is None else (_x(axis, 1e3 * interval.low), _x(axis, 1e3 * interval.high)),
    )
