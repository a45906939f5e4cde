"""How each kind of panel is drawn. The colours are those of the boards."""

from __future__ import annotations

import math
from collections.abc import Callable
from datetime import UTC, datetime
from itertools import pairwise
from typing import Any

from matplotlib import dates as mdates
from matplotlib.axes import Axes
from matplotlib.ticker import FuncFormatter, MaxNLocator

from hicache_dashboards import palette
from hicache_dashboards.boards.model import Panel
from hicache_dashboards.pictures import units
from hicache_dashboards.pictures.answers import Series, Window

INK, FAINT, DARK = "#ccccdc", "#6e7079", "#111217"
OTHERS = (palette.SKY, palette.ORANGE, palette.GREEN, palette.PURPLE, palette.BLUE, palette.YELLOW, palette.RED, INK)
OVER_TIME = ("lines", "stack", "percent", "heatmap", "states")


def draw(panel: Panel, card: Axes, inner: Axes, answers: list[Series], window: Window) -> None:
    """``card`` is the whole panel, ``inner`` the room between title and legend."""
    if panel.kind in OVER_TIME:
        inner.set_xlim(_when(window.start), _when(window.end))
        inner.xaxis.set_major_locator(MaxNLocator(max(2, panel.span // 3)))
        inner.xaxis.set_major_formatter(FuncFormatter(_hour))
    else:
        inner.set_visible(False)
    _KINDS[panel.kind](panel, inner if panel.kind in OVER_TIME else card, answers)


def _lines(panel: Panel, axes: Axes, answers: list[Series]) -> None:
    _value_axis(panel, axes)
    for series, colour in zip(answers, _colours(answers), strict=True):
        times, values = with_holes(series.times, series.values)
        axes.plot([_when(t) for t in times], values, color=colour, lw=1.4, label=series.name)
    for step in panel.steps:
        if step.at != float("-inf"):
            axes.axhline(step.at, color=step.colour, lw=0.8, ls="--")
    numbers = [value for series in answers for value in series.values if not math.isnan(value)]
    highest = max([*numbers, *(step.at for step in panel.steps)], default=0)
    axes.set_ylim(min([*numbers, 0]), (panel.maximum or highest or 1) * 1.04)
    _legend(panel, axes)


def with_holes(times: list[float], values: list[float]) -> tuple[list[float], list[float]]:
    """NaN where points are missing: no line may run over what nobody measured."""
    step = min((after - before for before, after in pairwise(times)), default=0.0)
    points = list(zip(times, values, strict=True))[:1]
    for (before, _), (after, value) in pairwise(zip(times, values, strict=True)):
        if after - before > 1.5 * step:
            points.append((before + step, math.nan))
        points.append((after, value))
    return [t for t, _ in points], [value for _, value in points]


def _stack(panel: Panel, axes: Axes, answers: list[Series]) -> None:
    _value_axis(panel, axes)
    times = sorted({t for series in answers for t in series.times})
    layers = [[values.get(t, 0.0) for t in times] for values in map(_by_time, answers)]
    names = [series.name for series in answers]
    axes.stackplot([_when(t) for t in times], layers, colors=_colours(answers), alpha=0.9, labels=names)
    highest = max((sum(values) for values in zip(*layers, strict=True)), default=0)
    axes.set_ylim(0, panel.maximum or highest * 1.04 or 1)
    _legend(panel, axes)


def _stat(panel: Panel, card: Axes, answers: list[Series]) -> None:
    share = 0.72 / len(answers)
    for index, series in enumerate(answers):
        value = series.values[-1]
        state = next((state for state in panel.states if state.value == value), None)
        colour = state.colour if state else _step_colour(panel, value)
        words = state.text if state else units.text(value, panel.unit)
        if len(answers) > 1 or "{{" in panel.queries[0].legend:
            words = f"{series.name}  {words}"
        middle = 0.74 - (index + 0.5) * share
        if colour:
            card.axhspan(middle - share * 0.47, middle + share * 0.47, 0.03, 0.97, color=colour, zorder=0)
        size = min(20.0, 150 * share, panel.span * 75 / max(len(words), 1))
        card.text(0.5, middle, words, ha="center", va="center", size=size, color=DARK if colour else INK)


def _bars(panel: Panel, card: Axes, answers: list[Series]) -> None:
    room = panel.height + 1
    shown, colours = answers[:room], _colours(answers)[:room]
    values = [_number(series.values[-1]) for series in shown]
    height, longest = 0.78 / max(len(shown), 4), max([*values, 1e-12])
    for index, (series, value, colour) in enumerate(zip(shown, values, colours, strict=True)):
        middle = 0.8 - (index + 0.5) * height
        card.barh(middle - height * 0.3, 0.94 * value / longest, left=0.03, height=height * 0.25, color=colour)
        label = _fitting(f"{series.name}: {units.text(series.values[-1], panel.unit)}", panel.span * 8)
        card.text(0.03, middle - height * 0.1, label, va="bottom", size=7)
    _and_more(card, answers, room)


def _heatmap(panel: Panel, axes: Axes, answers: list[Series]) -> None:
    buckets = sorted(answers, key=lambda series: float(series.labels["le"]))
    times = sorted({t for series in buckets for t in series.times})
    cumulative = [[_by_time(series).get(t, 0.0) for t in times] for series in buckets]
    below = [[0.0] * len(times), *cumulative[:-1]]
    cells = [
        [max(v - b, 0) or math.nan for v, b in zip(*rows, strict=True)] for rows in zip(cumulative, below, strict=True)
    ]
    axes.pcolormesh([_when(t) for t in times], range(len(buckets)), cells, cmap="cividis", shading="nearest", vmin=0)
    labels = ["more" if s.labels["le"] == "+Inf" else units.text(float(s.labels["le"]), panel.unit) for s in buckets]
    every = max(1, len(buckets) // 7)
    axes.set_yticks(range(0, len(buckets), every), labels[::every])


def _states(panel: Panel, axes: Axes, answers: list[Series]) -> None:
    room = panel.height - 3
    for index, series in enumerate(answers[:room]):
        width = (series.times[1] - series.times[0]) / 86400 if len(series.times) > 1 else 1e-4
        for t, value in zip(series.times, series.values, strict=True):
            colour = next((state.colour for state in panel.states if state.value == value), palette.NEUTRAL)
            axes.broken_barh([(_when(t), width * 1.05)], (-index - 0.4, 0.45), facecolors=colour)
        axes.text(0, 0.12 - index, series.name, va="bottom", size=6.5, transform=axes.get_yaxis_transform())
    axes.set_yticks([])
    axes.set_ylim(-max(len(answers[:room]), 3) + 0.4, 0.6)
    _and_more(axes, answers, room)


def _table(panel: Panel, card: Axes, answers: list[Series]) -> None:
    columns = sorted({label for series in answers for label in series.labels if label != "__name__"})
    room = panel.height - 2
    lines = [columns, *[[series.labels.get(column, "") for column in columns] for series in answers[:room]]]
    widths = [max(len(line[i]) for line in lines) + 2 for i in range(len(columns))]
    letters = max(sum(widths), panel.span * 7)
    for line, cells in enumerate(lines):
        for index, cell in enumerate(cells):
            left = 0.02 + 0.97 * sum(widths[:index]) / letters
            size = min(7.0, 7 * panel.span * 9 / letters)
            card.text(left, 0.8 - line * 0.8 / (room + 1), cell, size=size, color=INK if line else FAINT, va="top")
    _and_more(card, answers, room)


_KINDS: dict[str, Callable[[Panel, Axes, list[Series]], None]] = {
    "lines": _lines,
    "stack": _stack,
    "percent": _stack,
    "stat": _stat,
    "bars": _bars,
    "heatmap": _heatmap,
    "states": _states,
    "table": _table,
}


def _value_axis(panel: Panel, axes: Axes) -> None:
    axes.grid(visible=True, color="#2a2d33", lw=0.6)
    axes.set_axisbelow(True)
    axes.yaxis.set_major_locator(MaxNLocator(4))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: units.text(value, panel.unit)))


def _legend(panel: Panel, axes: Axes) -> None:
    handles, names = axes.get_legend_handles_labels()  # without those that have no name
    columns = max(1, panel.span * 9 // (max(map(len, names), default=0) + 6))
    shown = columns * 2
    names = [*names[: shown - 1], f"and {len(names) - shown + 1} more"] if len(names) > shown else names
    axes.legend(
        handles[: len(names)],
        names,
        ncols=columns,
        loc="upper left",
        bbox_to_anchor=(0, -0.26 / (panel.height * 0.3 - 1)),
        borderaxespad=0,
        fontsize=6.5,
        frameon=False,
        labelcolor=INK,
        handlelength=1.2,
        columnspacing=1.2,
    )


def _and_more(axes: Axes, answers: list[Series], room: int) -> None:
    """Never cut silently."""
    if len(answers) > room:
        axes.text(
            0.98, 0.02, f"and {len(answers) - room} more", transform=axes.transAxes, ha="right", size=7, color=FAINT
        )


def _colours(answers: list[Series]) -> list[str]:
    """The colours of the boards: by meaning where there is one, else in order."""
    known = {**palette.BY_LEGEND, **{k: v for values in palette.BY_LABEL.values() for k, v in values.items()}}
    meant = [
        next((known[words] for words in (name, name.split(",")[0], name.split(" ")[0]) if words in known), None)
        for name in (series.name for series in answers)
    ]
    others = iter(range(len(answers)))
    return [colour or OTHERS[next(others) % len(OTHERS)] for colour in meant]


def _step_colour(panel: Panel, value: float) -> str | None:
    if not panel.steps or math.isnan(value):
        return None
    passed = [step.colour for step in panel.steps if value >= step.at]
    return passed[-1] if passed else palette.NEUTRAL


def _by_time(series: Series) -> dict[float, float]:
    return {t: _number(value) for t, value in zip(series.times, series.values, strict=True)}


def _fitting(words: str, letters: int) -> str:
    return words if len(words) <= letters else words[: letters - 1] + "…"


def _number(value: float) -> float:
    return 0.0 if math.isnan(value) else value


def _when(seconds: float) -> Any:
    return mdates.date2num(datetime.fromtimestamp(seconds, UTC))  # type: ignore[no-untyped-call]


def _hour(value: float, _: object) -> str:
    return f"{mdates.num2date(value):%H:%M:%S}"  # type: ignore[no-untyped-call]
