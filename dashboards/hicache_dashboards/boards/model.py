"""What a board is made of. Boards are data; ``render`` turns them into Grafana's JSON, ``pictures`` into images."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from hicache_dashboards.queries.model import Query

Kind = Literal["lines", "stack", "percent", "stat", "bars", "heatmap", "states", "table"]


@dataclass(frozen=True, slots=True)
class Step:
    """From this value on, this colour; and what it means to be there."""

    at: float
    colour: str
    meaning: str


@dataclass(frozen=True, slots=True)
class State:
    """One value of a gauge that is really a name."""

    value: int
    text: str
    colour: str


@dataclass(frozen=True, slots=True)
class Panel:
    title: str
    description: str
    """What it shows and what is good; no full sentence about the colours, those come from the steps."""
    unit: str
    queries: tuple[Query, ...]
    kind: Kind = "lines"
    span: int = 8
    """Columns of 24."""
    height: int = 8
    steps: tuple[Step, ...] = ()
    states: tuple[State, ...] = ()
    alerts: tuple[str, ...] = ()
    """Alerts whose runbook explains what is seen here."""
    maximum: float | None = None
    traced: str = ""
    """TraceQL that finds the spans behind the panel."""


@dataclass(frozen=True, slots=True)
class Row:
    title: str
    panels: tuple[Panel, ...]


@dataclass(frozen=True, slots=True)
class Board:
    uid: str
    title: str
    description: str
    rows: tuple[Row, ...]

    @property
    def panels(self) -> tuple[Panel, ...]:
        return tuple(panel for row in self.rows for panel in row.panels)
