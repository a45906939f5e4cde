from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Query:
    expr: str
    legend: str
    instant: bool = False
    """Only the value at the end of the time range."""
    buckets: bool = False
    """The result is histogram buckets, for a heatmap."""
    exemplars: bool = False
    optional: str = ""
    """Why a healthy engine may have nothing to show here; empty if it always has."""
