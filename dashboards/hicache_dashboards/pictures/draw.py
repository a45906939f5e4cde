"""One board, one image: each panel where the board puts it, drawn from the answers to its queries."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from datetime import UTC, datetime
from io import BytesIO
from pathlib import Path

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from PIL import Image

from hicache_dashboards.boards.model import Board, Panel
from hicache_dashboards.pictures.answers import Prometheus, Window
from hicache_dashboards.pictures.kinds import FAINT, INK, draw

PAPER, CARD = "#0d0f13", "#1f232b"
COLUMNS, COLUMN, LINE = 24, 0.62, 0.3
"""Inches of one of the 24 columns, and of one unit of height."""
TITLE_LINES, ROW_LINES = 3, 2
GAP = 0.03
"""Inches around a card."""


def picture(board: Board, prometheus: Prometheus, window: Window, path: Path) -> None:
    """Ask all queries of the board and write a PNG."""
    lines = TITLE_LINES + sum(ROW_LINES + _height(row.panels) for row in board.rows)
    with mpl.rc_context({"font.size": 8, "text.color": INK, "font.family": "DejaVu Sans"}):
        figure = Figure(figsize=(COLUMNS * COLUMN, lines * LINE), facecolor=PAPER, dpi=110)
        figure.text(0.01, 1 - 1.2 / lines, board.title, size=15, weight="bold")
        span = f"{_clock(window.start)} to {_clock(window.end)} UTC"
        figure.text(0.01, 1 - 2.3 / lines, f"{board.description}   {span}", size=8, color=FAINT)
        top = TITLE_LINES
        for row in board.rows:
            figure.text(0.01, 1 - (top + 1.3) / lines, row.title, size=10, weight="bold")
            top += ROW_LINES
            for panel, x, y in _placed(row.panels):
                card, inner = _axes(figure, panel, x, top + y, lines)
                answers = [series for query in panel.queries for series in prometheus.ask(query, window)]
                if answers:
                    draw(panel, card, inner, answers, window)
                else:
                    _empty(panel, card, inner)
            top += _height(row.panels)
        _save(figure, path)


def _save(figure: Figure, path: Path) -> None:
    """Few colours are used: with a palette the file is a third as large."""
    image = BytesIO()
    figure.savefig(image, format="png")
    Image.open(image).convert("RGB").quantize(256, Image.Quantize.MAXCOVERAGE).save(path, optimize=True)


def _placed(panels: Sequence[Panel]) -> list[tuple[Panel, int, int]]:
    """Left to right, as Grafana's grid does: a line ends when 24 columns are full."""
    placed, x, y, tallest = [], 0, 0, 0
    for panel in panels:
        placed.append((panel, x, y))
        x, tallest = x + panel.span, max(tallest, panel.height)
        if x >= COLUMNS:
            x, y, tallest = 0, y + tallest, 0
    return placed


def _height(panels: Sequence[Panel]) -> int:
    return max(y + panel.height for panel, _, y in _placed(panels))


def _axes(figure: Figure, panel: Panel, x: int, y: int, lines: int) -> tuple[Axes, Axes]:
    """The card with its title, and the room for the drawing in it."""
    width, height = COLUMNS * COLUMN, lines * LINE  # of the figure, in inches
    left, top = x * COLUMN + GAP, height - y * LINE - GAP
    right, bottom = (x + panel.span) * COLUMN - GAP, height - (y + panel.height) * LINE + GAP
    card = figure.add_axes((left / width, bottom / height, (right - left) / width, (top - bottom) / height))
    title = "\n".join(textwrap.wrap(panel.title, max(int(panel.span * 6.4), 14))[:2])
    card.text(0.07 / (right - left), 1 - 0.1 / (top - bottom), title, size=8.5, weight="bold", va="top")
    inner = (left + 0.62, bottom + 0.58, right - left - 0.75, top - bottom - 1.0)
    drawing = figure.add_axes((inner[0] / width, inner[1] / height, inner[2] / width, inner[3] / height))
    for axes in (card, drawing):
        axes.set_facecolor(CARD)
        axes.spines[:].set_visible(False)
        axes.tick_params(colors=FAINT, length=0, labelsize=7)
    card.set(xticks=[], yticks=[], xlim=(0, 1), ylim=(0, 1))
    return card, drawing


def _empty(panel: Panel, card: Axes, inner: Axes) -> None:
    inner.set_visible(False)
    reasons = {query.optional for query in panel.queries}
    words = f"no data: {reasons.pop()}" if len(reasons) == 1 and "" not in reasons else "no data"
    wrapped = "\n".join(textwrap.wrap(words, panel.span * 6))
    card.text(0.5, 0.45, wrapped, ha="center", va="center", color=FAINT, size=8)


def _clock(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M:%S")
