"""Counters of one engine through its restarts.

Prometheus takes every fall of a counter for a restart and counts the new value as an increase, so a fall that is no
restart would be a jump upwards. Such a fall is held back here and counted; a true restart is passed through.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from hicache_exporter.core.engine_identity import Incarnation
from hicache_exporter.core.engine_view import Value

NEAR_ZERO = 0.1
"""A counter that starts again is far below where it was; a small step back is no restart."""
ENOUGH = 3
"""So many counters must have fallen together, and all of them, to be a restart without a mark of one."""

Key = tuple[str, tuple[str, ...]]


@dataclass(slots=True)
class _Track:
    """One counter in the present run of the engine."""

    raw: float
    """What the engine said last."""
    served: Value


class EngineCounters:
    """State of one engine; feed it every good answer, in order."""

    def __init__(self) -> None:
        self.restarts = 0
        self.anomalies = 0
        self._tracks: dict[Key, _Track] = {}
        self._earlier: dict[Key, float] = {}
        """Counted in earlier runs of the engine."""
        self._incarnation = Incarnation()

    def follow(self, values: Iterable[Value], incarnation: Incarnation) -> list[Value]:
        """The values to serve: gauges as they are, counters and histograms without false resets."""
        values = list(values)
        if self._restarted(values, incarnation):
            self.restarts += 1
            for key in list(self._tracks):
                self._close(key)
        self._incarnation = incarnation
        return [self._served(value) if _counts(value) else value for value in values]

    def is_new_run(self, incarnation: Incarnation) -> bool:
        """The marks say for certain that the engine has restarted since the last answer."""
        return incarnation.follows(self._incarnation) is True

    def total(self, family: str, labels: tuple[str, ...] = ()) -> float | None:
        """Counted over all runs seen, never falling; histograms: their count. None: never seen."""
        key = (family, labels)
        track = self._tracks.get(key)
        if track is None:
            return self._earlier.get(key)
        return self._earlier.get(key, 0.0) + track.served.values[0]

    def _restarted(self, values: list[Value], incarnation: Incarnation) -> bool:
        marked = incarnation.follows(self._incarnation)
        if marked is not None:
            return marked
        pairs = [(self._tracks.get(_key(value)), value.values[0]) for value in values if _counts(value)]
        compared = [now < track.raw for track, now in pairs if track is not None and track.raw > 0]
        return len(compared) >= ENOUGH and all(compared)

    def _served(self, value: Value) -> Value:
        key, now = _key(value), value.values[0]
        track = self._tracks.get(key)
        if track is not None and now < track.raw and now <= NEAR_ZERO * track.raw and not value.assumed:
            self._close(key)
            track = None
        if track is None:
            self._tracks[key] = _Track(now, value)
            return value
        self.anomalies += now < track.raw
        track.raw = now
        if now >= track.served.values[0]:
            track.served = value
        return track.served

    def _close(self, key: Key) -> None:
        track = self._tracks.pop(key)
        self._earlier[key] = self._earlier.get(key, 0.0) + track.served.values[0]


def _key(value: Value) -> Key:
    return value.family.name, value.labels


def _counts(value: Value) -> bool:
    return value.family.type in ("counter", "histogram")
