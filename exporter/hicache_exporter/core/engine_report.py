"""One engine over time: readings in, what to publish out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from hicache_exporter.core.engine_counters import EngineCounters
from hicache_exporter.core.engine_families import Needs
from hicache_exporter.core.engine_identity import Reporter, description, incarnation, reporters
from hicache_exporter.core.engine_reading import REASONS, EngineReading
from hicache_exporter.core.engine_view import EngineView, Value, view

EVERY_METRIC = "*"
METRICS_OFF = ("empty", "not_found")
"""How an engine answers that was started without its metrics."""


@dataclass(frozen=True, slots=True)
class EngineReport:
    reading: EngineReading
    """Without its text: that is the bulk, and all that is wanted of it is here."""
    failures: Mapping[str, int]
    """By reason, from the first reading on."""
    restarts: int = 0
    anomalies: int = 0
    missing: Mapping[str, str] = field(default_factory=dict)
    """Metric of the engine and what would bring it."""
    values: tuple[Value, ...] = ()
    view: EngineView = field(default_factory=EngineView)
    reporters: tuple[Reporter, ...] = ()
    description: Mapping[str, str] = field(default_factory=dict)
    unreadable: int = 0
    """Lines of the text that could not be read."""


class EngineTracker:
    """Keeps what must outlive one reading: counters through restarts, failures by reason, the tree of this run."""

    def __init__(self) -> None:
        self.counters = EngineCounters()
        self._failures = dict.fromkeys(REASONS, 0)
        self._tree: str | None = None

    def take(self, reading: EngineReading) -> EngineReport:
        """Feed every reading once, in order."""
        if reading.text is None:
            return self._down(reading)
        run = incarnation(reading.text)
        # What a restarted engine said of itself in its earlier life may no longer hold.
        new = self.counters.is_new_run(run)
        info = None if new else reading.info
        seen = view(reading.text, info, reading.tree or (None if new else self._tree))
        restarts = self.counters.restarts
        values = self.counters.follow(seen.values, run)
        self._tree = seen.tree if new or self.counters.restarts == restarts else None
        return EngineReport(
            replace(reading, text=None),
            dict(self._failures),
            self.counters.restarts,
            self.counters.anomalies,
            seen.missing,
            tuple(values),
            seen,
            tuple(reporters(reading.text, info)),
            description(reading.text, info, reading.tree),
            reading.text.unreadable,
        )

    def _down(self, reading: EngineReading) -> EngineReport:
        self._failures[reading.reason or "broken"] += 1
        missing = {EVERY_METRIC: str(Needs.METRICS.value)} if reading.reason in METRICS_OFF else {}
        return EngineReport(reading, dict(self._failures), self.counters.restarts, self.counters.anomalies, missing)
