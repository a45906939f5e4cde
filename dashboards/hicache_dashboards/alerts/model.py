from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Severity = Literal["critical", "warning", "info"]
"""critical wakes somebody, warning opens a ticket, info is only shown on the boards."""
Area = Literal["engine", "hits", "ttft", "l2", "proof", "recorder", "sidecar", "gpu", "host", "storage"]


@dataclass(frozen=True, slots=True)
class Alert:
    name: str
    area: Area
    severity: Severity
    expr: str
    summary: str
    """One sentence with the numbers."""
    action: str
    """The first thing to do; the runbook page has the rest."""
    board: str
    """Uid of the board that shows it."""
    wait: str = "0s"
    labels: tuple[tuple[str, str], ...] = ()
