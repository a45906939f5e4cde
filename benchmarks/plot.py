"""The plot of the history: each figure with a target and more than one run on a panel of its own, the target dashed."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import datetime
from io import StringIO
from math import ceil
from pathlib import Path
from textwrap import fill

import matplotlib as mpl
from form import Line, number
from matplotlib.axes import Axes
from matplotlib.figure import Figure

COLUMNS = 4
UNSEEN = re.compile(r'(?<=\.\d\d)\d+|^ +| transform="rotate\(-0 [^)]*\)"', re.MULTILINE)
"""Thousandths of a point, a third of the file; the spaces that its lines begin with; turns of a text by no angle."""
MET, MISSED, TARGET = "#2a7f4f", "#c0392b", "#888888"


def draw(lines: Sequence[Line], path: Path, description: str) -> None:
    """``description`` is kept in the file: what was drawn can be told from it."""
    panels: dict[tuple[str, str], list[Line]] = {}
    for line in lines:
        if line.target is not None and line.value is not None and line.target.value:
            panels.setdefault((line.name, line.figure), []).append(line)
    panels = {which: runs for which, runs in panels.items() if len(runs) > 1}
    rows = max(1, ceil(len(panels) / COLUMNS))
    settings = {
        "svg.fonttype": "none",
        "svg.hashsalt": "performance",
        "font.size": 7,
        "font.family": "sans-serif",
        "font.sans-serif": ["DejaVu Sans"],  # named anew at each text: nine more are a quarter of the file
    }
    with mpl.rc_context(settings):
        figure = Figure(figsize=(11, 1.6 * rows + 0.3), layout="constrained")
        axes = list(figure.subplots(rows, COLUMNS, squeeze=False).flat)
        for panel, runs in zip(axes, panels.values(), strict=False):
            _panel(panel, runs)
        for panel in axes[len(panels) :]:
            panel.set_visible(False)
        figure.patch.set_facecolor("white")
        drawn = StringIO()
        figure.savefig(drawn, format="svg", metadata={"Date": None, "Description": description})
    path.write_text(UNSEEN.sub("", drawn.getvalue()), "utf-8")


def _panel(panel: Axes, runs: list[Line]) -> None:
    newest = runs[-1]
    target = newest.target
    assert target is not None
    values = [run.value or 0.0 for run in runs]
    panel.axhline(target.value, color=TARGET, linestyle="--", linewidth=0.8)
    panel.plot(range(len(runs)), values, color="#bbbbbb", linewidth=0.8, zorder=1)
    panel.scatter(range(len(runs)), values, c=[MET if run.met else MISSED for run in runs], s=12, zorder=2)
    low, high = min(0.0, *values), max(target.value, *values)
    panel.set_ylim(low * 1.1, high * 1.15)
    panel.set_xlim(-0.5, max(len(runs) - 0.5, 0.5))
    days = [datetime.strptime(run.date[:10], "%Y-%m-%d").strftime("%d %b") for run in (runs[0], runs[-1])]
    panel.set_xticks([0, len(runs) - 1] if len(runs) > 1 else [0], days if len(runs) > 1 else days[:1])
    panel.set_title(fill(f"{newest.name}: {newest.figure}", 42), fontsize=6.5, loc="left")
    word = "at most" if target.bound == "at_most" else "at least"
    panel.set_ylabel(f"{newest.unit}\n({word} {number(target.value)})", fontsize=6)
    panel.spines[["top", "right"]].set_visible(False)
