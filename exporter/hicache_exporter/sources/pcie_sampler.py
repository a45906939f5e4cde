"""Samples the PCIe counters of all GPUs into the board, often under load and rarely at rest.

One wake-up serves all GPUs. At rest the recorders of the engines are watched (see ring_heads): a load-back begins with
records, so the first look after them takes a sample before a wrap's worth of bytes can have passed.
"""

from __future__ import annotations

from collections.abc import Callable

from hicache_exporter.core.pcie_meter import QUIET_BYTES, Gap, PcieMeter, Sample
from hicache_exporter.core.pcie_pace import Pace
from hicache_exporter.sources.pcie_counters import NotObservableError, PcieCounters, Reading
from hicache_exporter.sources.probe_board import Board, DeviceArea

STIR_BYTES_PER_NS = QUIET_BYTES / Pace.IDLE_NS / 2
"""8 MB/s keeps the sampler awake: 25 times an idle link, and a rest at less can't come out as unsafe."""
SLOWEST_WRAP_NS = 1_000_000_000


class Gauge:
    """One GPU: its counters, its totals, its area on the board."""

    def __init__(self, counters: PcieCounters, area: DeviceArea) -> None:
        self.counters, self.area = counters, area
        before = area.latest()
        tx, rx = (before.tx, before.rx) if before else (0, 0)
        self._meter = PcieMeter(counters.wrap_ns, tx, rx)
        self._last: Sample = self._meter.begin(*counters.read())
        area.append(self._last)

    def sample(self, rested_ns: int, active_ns: int) -> bool:
        """Read and keep one sample; True if more moved than an idle link shows. Raises NotObservableError."""
        reading: Reading = self.counters.read()
        sample = self._meter.advance(*reading, rested_ns=rested_ns, active_ns=active_ns)
        moved = max(sample.tx - self._last.tx, sample.rx - self._last.rx)
        span_ns = max(1, sample.before_ns - self._last.before_ns)
        self._last = sample
        self.area.append(sample)
        return sample.gap is Gap.UNSAFE or moved > STIR_BYTES_PER_NS * span_ns


class PcieSampler:
    """``step`` at every wake-up, then sleep for what it returns, and again as long as it is ``at_rest``."""

    def __init__(self, board: Board, engine_activity: Callable[[int], int]) -> None:
        self._board = board
        self._activity = engine_activity
        self._gauges: dict[str, Gauge] = {}
        self._pace = Pace(SLOWEST_WRAP_NS)
        self._seen_activity: int | None = None
        self._looked_ns = self._sampled_ns = 0
        self._resting = False

    def add(self, uuid: str, gauge: Gauge) -> None:
        self._gauges[uuid] = gauge
        self._pace = Pace(min(gauge.counters.wrap_ns for gauge in self._gauges.values()))

    def drop(self, uuid: str) -> None:
        self._gauges.pop(uuid, None)

    def step(self, now_ns: int) -> tuple[int, dict[str, str]]:
        """Nanoseconds to sleep, and the GPUs that stopped being observable (uuid -> reason), dropped here."""
        if self._seen_activity is None:  # who knows what is going on: begin awake
            self._pace.stir(now_ns)
        active_ns = self._look(now_ns)
        if not self._due(now_ns, active_ns):
            self._resting = True
            return self._pace.look_ns, {}
        rested_ns = self._pace.IDLE_NS if self._resting else 0
        lost: dict[str, str] = {}
        stirred = active_ns > 0
        for uuid, gauge in list(self._gauges.items()):
            self._board.enter(gauge.area.number)
            try:
                stirred |= gauge.sample(rested_ns, active_ns)
            except NotObservableError as error:
                lost[uuid] = error.reason
                del self._gauges[uuid]
        if stirred:
            self._pace.stir(now_ns)
        self._sampled_ns, self._resting = now_ns, False
        return (self._pace.busy_ns if self._pace.busy(now_ns) else self._pace.look_ns), lost

    def at_rest(self, now_ns: int) -> bool:
        """A look that finds nothing to do, and touches little: code that runs once in 50 ms finds its caches cold,
        so that the wake-ups of an idle sampler cost more than its readings. False: call ``step``.
        """
        if not self._resting or self._rested(now_ns) or self._activity(now_ns) != self._seen_activity:
            return False
        self._looked_ns = now_ns
        return True

    def _look(self, now_ns: int) -> int:
        """How long an engine can have been active by now: since the last look, 0 if none wrote a record."""
        activity = self._activity(now_ns)
        moved = self._seen_activity is not None and activity != self._seen_activity
        active_ns = now_ns - self._looked_ns if moved else 0
        self._seen_activity, self._looked_ns = activity, now_ns
        return active_ns

    def _due(self, now_ns: int, active_ns: int) -> bool:
        return active_ns > 0 or self._pace.busy(now_ns) or self._rested(now_ns)

    def _rested(self, now_ns: int) -> bool:
        return now_ns - self._sampled_ns >= self._pace.IDLE_NS - self._pace.look_ns // 2
