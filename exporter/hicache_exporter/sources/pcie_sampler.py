"""Samples the PCIe counters of all GPUs into the board, often under load and rarely at rest.

One wake-up serves all GPUs. At rest the recorders of the engines are watched (see ring_heads): a load-back begins with
records, so the first look after them takes a sample before a wrap's worth of bytes can have passed.
"""

from __future__ import annotations

from collections.abc import Callable
from time import monotonic_ns, sleep

from hicache_exporter.core.pcie_meter import QUIET_BYTES, Gap, PcieMeter, Sample
from hicache_exporter.core.pcie_pace import Pace
from hicache_exporter.sources.pcie_counters import NotObservableError, PcieCounters
from hicache_exporter.sources.probe_board import RESTING, Board, DeviceArea

STIR_BYTES_PER_NS = QUIET_BYTES / Pace.IDLE_NS / 2
"""8 MB/s keeps the sampler awake: 25 times an idle link, and a rest at less can't come out as unsafe."""
_UNSAFE = Gap.UNSAFE
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
        before_ns, _, tx, rx, _ = self._last
        self._last = sample = self._meter.advance(*self.counters.read(), rested_ns, active_ns)
        self.area.append(sample)
        still = STIR_BYTES_PER_NS * max(1, sample.before_ns - before_ns)
        return sample.rx - rx > still or sample.tx - tx > still or sample.gap is _UNSAFE


class PcieSampler:
    """``step`` at every wake-up, then sleep for what it returns, then ``rest`` if ``resting``."""

    def __init__(self, board: Board, engine_activity: Callable[[int], int]) -> None:
        self._board = board
        self._activity = engine_activity
        self._gauges: dict[str, Gauge] = {}
        self._pace = Pace(SLOWEST_WRAP_NS)
        self._seen_activity: int | None = None
        self._looked_ns = self._sampled_ns = 0
        self.resting = False
        """The last step found nothing to do."""

    def add(self, uuid: str, gauge: Gauge) -> None:
        self._gauges[uuid] = gauge
        self._pace = Pace(min(gauge.counters.wrap_ns for gauge in self._gauges.values()))

    def drop(self, uuid: str) -> None:
        self._gauges.pop(uuid, None)

    def step(self, now_ns: int) -> tuple[int, dict[str, str]]:
        """Nanoseconds to sleep, and the GPUs that stopped being observable (uuid -> reason), dropped here."""
        pace, seen = self._pace, self._seen_activity
        activity = self._seen_activity = self._activity(now_ns)
        # how long an engine can have been active by now: since the last look, 0 if none wrote a record
        active_ns = now_ns - self._looked_ns if activity != seen and seen is not None else 0
        self._looked_ns = now_ns
        if seen is None:  # who knows what is going on: begin awake
            pace.stir(now_ns)
        busy = pace.busy(now_ns)
        if not busy and not active_ns and now_ns < self._reading_due_ns():
            self.resting = True
            return pace.look_ns, {}
        stirred, lost = self._sample(pace.IDLE_NS if self.resting else 0, active_ns)
        if stirred or active_ns:
            busy = True
            pace.stir(now_ns)
        self._sampled_ns, self.resting = now_ns, False
        return (pace.busy_ns if busy else pace.look_ns), lost

    def _sample(self, rested_ns: int, active_ns: int) -> tuple[bool, dict[str, str]]:
        """Read all GPUs. Returns whether more moved than an idle link shows, and the GPUs that were lost."""
        stirred, lost = False, {}
        for uuid, gauge in self._gauges.items():
            self._board.enter(gauge.area.number)
            try:
                stirred |= gauge.sample(rested_ns, active_ns)
            except NotObservableError as error:
                lost[uuid] = error.reason
        self._board.enter(RESTING)
        for uuid in lost:
            del self._gauges[uuid]
        return stirred, lost

    def rest(
        self, pause: float, sleep: Callable[[float], None] = sleep, clock: Callable[[], int] = monotonic_ns
    ) -> None:
        """Look every ``pause`` seconds until there is something to do: for a second at most, as ``step`` has
        a reading to take then. A look touches little: code that runs once in 50 ms finds its caches cold, so that the
        looks of an idle sampler would cost more than its readings.
        """
        activity, seen, due_ns = self._activity, self._seen_activity, self._reading_due_ns()
        while (now_ns := clock()) < due_ns and activity(now_ns) == seen:
            self._looked_ns = now_ns
            sleep(pause)

    def _reading_due_ns(self) -> int:
        return self._sampled_ns + self._pace.IDLE_NS - self._pace.look_ns // 2
