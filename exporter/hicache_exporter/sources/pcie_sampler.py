"""Samples the PCIe counters of all GPUs into the board, often under load and rarely at rest.

Under load every reading is of one direction, in turn, as the driver's call costs by the field. At rest both are read
every two seconds, and the recorders of the engines are watched (see ring_heads): a load-back begins with records, so
the first look after them reads both before a wrap's worth of bytes can have passed.

What runs every turn touches little: code that runs once in 20 or 50 ms finds its caches cold.
"""

from __future__ import annotations

from collections.abc import Callable
from time import monotonic_ns, sleep

from hicache_exporter.core.pcie_meter import QUIET_BYTES, Gap, PcieMeter, Rest
from hicache_exporter.core.pcie_pace import Pace
from hicache_exporter.sources.pcie_counters import BOTH, RX, TX, NotObservableError, PcieCounters
from hicache_exporter.sources.probe_board import Board, DeviceArea

SECOND = 1_000_000_000
STIR_BYTES_PER_NS = QUIET_BYTES / Pace.IDLE_NS / 2
"""4 MB/s keeps the sampler awake: 13 times an idle link, and a rest at less can't come out as unsafe."""
SLOWEST_WRAP_NS = SECOND


class Gauge:
    """One GPU: its counters, its totals, its area on the board."""

    def __init__(self, counters: PcieCounters, area: DeviceArea) -> None:
        self.counters, self.area = counters, area
        self._histories = (area.tx, area.rx)
        before = [history.latest() for history in self._histories]
        self._meters = [PcieMeter(counters.wrap_ns, last.total if last else 0) for last in before]
        self._next = RX
        self._asked_ns, after_ns, values = counters.read(BOTH)
        for meter, history, value in zip(self._meters, self._histories, values, strict=True):
            history.append(self._asked_ns, after_ns, meter.total, meter.begin(self._asked_ns, value))
        self._asked = self._totals()

    def _totals(self) -> list[int]:
        return [meter.total for meter in self._meters]

    def sample_next(self) -> None:
        """Read the direction whose turn it is."""
        which = self._next
        self._next = TX if which else RX
        before_ns, after_ns, (value,) = self.counters.read(which)
        meter = self._meters[which]
        gap = meter.advance(before_ns, after_ns, value)
        self._histories[which].append(before_ns, after_ns, meter.total, gap)

    def sample_both(self, rest: Rest | None = None) -> Gap:
        """Read both directions; the worse of the two gaps."""
        before_ns, after_ns, values = self.counters.read(BOTH)
        worst = Gap.EXACT
        for meter, history, value in zip(self._meters, self._histories, values, strict=True):
            gap = meter.advance(before_ns, after_ns, value, rest)
            history.append(before_ns, after_ns, meter.total, gap)
            worst = max(worst, gap)
        return worst

    def moved(self, now_ns: int) -> bool:
        """True if more passed since this was asked the last time than an idle link shows."""
        still = STIR_BYTES_PER_NS * max(1, now_ns - self._asked_ns)
        before, self._asked, self._asked_ns = self._asked, self._totals(), now_ns
        return any(new - old > still for new, old in zip(self._asked, before, strict=True))


class PcieSampler:
    """``step`` and ``watch`` in turn, for ever. Both return the GPUs that stopped being observable (uuid -> reason)
    and are dropped here.
    """

    def __init__(self, board: Board, engine_activity: Callable[[int], int]) -> None:
        self._board = board
        self._activity = engine_activity
        self._gauges: dict[str, Gauge] = {}
        self._pace = Pace(SLOWEST_WRAP_NS)
        self._seen_activity: int | None = None
        self._looked_ns = self._due_ns = self._next_ns = 0
        self.resting = False
        """The last step found nothing that moves."""

    def add(self, uuid: str, gauge: Gauge) -> None:
        self._gauges[uuid] = gauge
        self._pace = Pace(min(gauge.counters.wrap_ns for gauge in self._gauges.values()))

    def drop(self, uuid: str) -> None:
        self._gauges.pop(uuid, None)

    def step(self, now_ns: int) -> dict[str, str]:
        """If that is due, choose between load and rest, where and on the way to which both directions are read."""
        if not self.resting and now_ns < self._due_ns:
            return {}
        seen, looked_ns = self._seen_activity, self._looked_ns
        activity = self._seen_activity = self._activity(now_ns)
        self._looked_ns = now_ns
        active = activity != seen  # and so at the first step: who knows what is going on
        if self.resting and not active and now_ns < self._due_ns:
            return {}
        lost: dict[str, str] = {}
        if self.resting:
            unsafe, lost = self._sample_both(now_ns, Rest(Pace.IDLE_NS, looked_ns if active else None))
            self._next_ns = now_ns + self._pace.turn_ns
            awake = self._moved(now_ns) or unsafe or active
        else:
            awake = self._moved(now_ns) or active
            if not awake:
                _, lost = self._sample_both(now_ns)
        self.resting = not (awake and self._gauges)
        self._due_ns = now_ns + (Pace.IDLE_NS - self._pace.look_ns // 2 if self.resting else Pace.HOLD_NS)
        return lost

    def _moved(self, now_ns: int) -> bool:
        moved = [gauge.moved(now_ns) for gauge in self._gauges.values()]  # each begins to count anew
        return any(moved)

    def _sample_both(self, now_ns: int, rest: Rest | None = None) -> tuple[bool, dict[str, str]]:
        """Read all GPUs: whether any gap is unsafe, and the GPUs that were lost."""
        unsafe, lost = False, {}
        for uuid, gauge in self._gauges.items():
            self._board.beat(now_ns, gauge.area.number)
            try:
                unsafe |= gauge.sample_both(rest) is Gap.UNSAFE
            except NotObservableError as error:
                lost[uuid] = error.reason
        self._board.beat(now_ns)
        return unsafe, self._forget(lost)

    def watch(
        self, until_ns: int, sleep: Callable[[float], None] = sleep, clock: Callable[[], int] = monotonic_ns
    ) -> dict[str, str]:
        """Sample under load, or look at the recorders at rest, until ``until_ns`` or the next step; one turn at least.

        Under load a step is due after a second, at rest also when an engine writes.
        """
        if not self.resting:
            return self._sample(until_ns, sleep, clock)
        self._look(min(until_ns, self._due_ns), sleep, clock)
        return {}

    def _sample(self, until_ns: int, sleep: Callable[[float], None], clock: Callable[[], int]) -> dict[str, str]:
        beat, turn_ns, next_ns, due_ns = self._board.beat, self._pace.turn_ns, self._next_ns, self._due_ns
        now_ns, lost = clock(), {}
        while True:
            if next_ns > now_ns:
                sleep((next_ns - now_ns) / SECOND)
            now_ns = clock()
            if now_ns >= due_ns:
                break
            late = now_ns - next_ns > turn_ns // 2  # then the other direction can't wait for its turn
            for uuid, gauge in self._gauges.items():
                beat(now_ns, gauge.area.number)
                try:
                    gauge.sample_both() if late else gauge.sample_next()
                except NotObservableError as error:
                    lost[uuid] = error.reason
            next_ns = (now_ns if late else next_ns) + turn_ns
            now_ns = clock()
            beat(now_ns)
            if lost or next_ns >= until_ns:
                break
        self._next_ns = next_ns
        return self._forget(lost)

    def _look(self, until_ns: int, sleep: Callable[[float], None], clock: Callable[[], int]) -> None:
        activity, seen, pause = self._activity, self._seen_activity, self._pace.look_ns / SECOND
        sleep(max(0, pause - (clock() - self._looked_ns) / SECOND))
        while (now_ns := clock()) < until_ns and activity(now_ns) == seen:
            self._looked_ns = now_ns
            sleep(pause)

    def _forget(self, lost: dict[str, str]) -> dict[str, str]:
        for uuid in lost:
            del self._gauges[uuid]
        return lost
