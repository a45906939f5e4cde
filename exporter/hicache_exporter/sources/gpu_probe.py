"""The sidecar's side of the GPU probe: keeps one probe process running and reads the board it writes on.

Reading never waits: it looks at shared memory. A thread looks twice a second whether the probe still answers; one that
doesn't is killed, the GPU whose call hung is left alone for a while, and the next probe starts after a pause. A process
stuck in the driver may not even die from SIGKILL: then no second one is started beside it.
"""

from __future__ import annotations

import logging
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from time import monotonic_ns
from typing import NamedTuple

import msgspec

from hicache_exporter.core.gpu_facts import GpuFacts, ProbeState, Snapshot
from hicache_exporter.core.pcie_window import BusWindow, window
from hicache_exporter.sources.probe_board import FIRST_LISTING, STARTING, Board

log = logging.getLogger(__name__)

SECOND = 1_000_000_000
PROBE = (sys.executable, "-m", "hicache_exporter.sources.nvml_probe")


class Limits(NamedTuple):
    """Seconds. ``answer``: longest silence of a running probe; ``start``: of one that initialises the driver;
    ``stale``: age at which a report is no longer shown; ``pause``: before the next probe, doubled up to ``pause_most``;
    ``hold``: how long a GPU whose call hung is left alone, doubled up to ``hold_most``.
    """

    answer: float = 5
    start: float = 30
    stale: float = 10
    pause: float = 1
    pause_most: float = 60
    hold: float = 30
    hold_most: float = 600
    look: float = 0.5


class GpuReading(NamedTuple):
    """The state of the source, the GPUs while it is ok, and the age of that report (None: there never was one)."""

    state: ProbeState
    detail: str
    age_seconds: float | None
    driver_version: str | None
    devices: tuple[GpuFacts, ...]


class PcieTotals(NamedTuple):
    tx: int
    rx: int
    unsafe_gaps: int


class GpuProbe:
    """``start`` and ``stop`` it; everything else may be called at any time from any thread."""

    def __init__(self, rings: Path, command: Sequence[str] = PROBE, limits: Limits = Limits()) -> None:  # noqa: B008
        self._rings, self._command, self._limits = rings, command, limits
        self._board = Board.create()
        self._process: subprocess.Popen[bytes] | None = None
        self._snapshot: Snapshot | None = None
        self._started_ns = 0
        self._next_start_ns = 0
        self._pause = limits.pause
        self._killed = False
        self._hung_at_ns = 0
        self._holds: Counter[int] = Counter()
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None
        self.restarts: Counter[str] = Counter({"hung": 0, "ended": 0})

    def start(self) -> None:
        self._thread = threading.Thread(target=self._keep, name="gpu-probe", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """End the probe. Takes a second at most, even if it can't be killed."""
        self._stopping.set()
        if self._thread is not None:
            self._thread.join(1)
        self._kill()

    def _keep(self) -> None:
        while not self._stopping.is_set():
            self._tend(monotonic_ns())
            self._stopping.wait(self._limits.look)

    # -- reading -------------------------------------------------------------------------------------------------

    def read(self) -> GpuReading:
        """What is known now. GPUs are given only from a report of a working source that is not stale."""
        last = self._report()
        if last is None:
            none_yet: ProbeState = "hung" if self._hung_at_ns else "failed" if self.restarts["ended"] else "starting"
            return GpuReading(none_yet, "", None, None, ())
        age = (monotonic_ns() - last.taken_ns) / SECOND
        hung = self._hung_at_ns > last.taken_ns
        if last.state == "ok" and age <= self._limits.stale:
            return GpuReading("ok", last.detail, age, last.driver_version, self._with_still_counters(last.devices))
        state: ProbeState = "hung" if hung else "stale" if last.state == "ok" else last.state
        reason = "hung" if hung else "no_report"
        absent = (GpuFacts(uuid=uuid, state="failed", unobservable={"device": reason}) for uuid in self.expected())
        return GpuReading(state, last.detail, age, last.driver_version, tuple(absent))

    def _report(self) -> Snapshot | None:
        with suppress(msgspec.MsgspecError):  # of another version: as good as none
            self._snapshot = self._board.snapshot() or self._snapshot
        return self._snapshot

    def _with_still_counters(self, devices: tuple[GpuFacts, ...]) -> tuple[GpuFacts, ...]:
        """Even an idle link moves 0.3 MB/s: PCIe counters that stay at zero count nothing on that board."""
        counting = self.pcie_totals()
        for facts in devices:
            if facts.state == "present" and facts.uuid not in counting:
                facts.unobservable.setdefault("pcie_bytes", "never_moved")
        return devices

    def expected(self) -> list[str]:
        """UUIDs of all GPUs seen since the sidecar started."""
        return [area.uuid for area in self._board.areas()]

    def pcie_totals(self) -> dict[str, PcieTotals]:
        """Byte totals by UUID since the sidecar started, over all probes; only GPUs whose counters ever moved."""
        totals = {}
        for area in self._board.areas():
            sent, received = area.tx.latest(), area.rx.latest()
            if sent and received and (sent.total or received.total):
                totals[area.uuid] = PcieTotals(sent.total, received.total, area.unsafe_gaps)
        return totals

    def bytes_between(self, uuid: str, t0_ns: int, t1_ns: int) -> BusWindow:
        """What crossed the GPU's PCIe link between two moments of CLOCK_MONOTONIC; ``rx`` is host to device."""
        for area in self._board.areas():
            if area.uuid == uuid:
                if not area.rx.count:
                    return BusWindow(False, "its counters are not read")
                return window(area.tx.newest_first(), area.rx.newest_first(), t0_ns, t1_ns)
        return BusWindow(False, "no such GPU is sampled")

    # -- keeping -------------------------------------------------------------------------------------------------

    def _tend(self, now_ns: int) -> None:
        if self._process is None:
            if now_ns >= self._next_start_ns:
                self._spawn(now_ns)
            return
        code = self._process.poll()
        if code is not None:
            self._process = None
            self._note_end()
            self._retry_later(now_ns)
        elif not self._killed and self._silent(now_ns):
            self._give_up(now_ns)
        elif now_ns - self._started_ns > self._limits.pause_most * SECOND:
            self._pause = self._limits.pause
        if now_ns - self._hung_at_ns > 2 * self._limits.hold_most * SECOND:
            self._holds.clear()

    def _note_end(self) -> None:
        report = self._report()
        if self._killed:
            self.restarts["hung"] += 1
        elif report is None or report.state == "ok":  # where there is no driver it ends by design
            self.restarts["ended"] += 1

    def _spawn(self, now_ns: int) -> None:
        self._board.beat(now_ns, STARTING)
        command = [*self._command, str(self._board.fd), str(self._rings)]
        try:
            self._process = subprocess.Popen(command, pass_fds=[self._board.fd], stdin=subprocess.DEVNULL)
        except OSError as error:
            log.warning("GPU probe can't be started: %s", error)
            self._retry_later(now_ns)
            return
        self._started_ns, self._killed = now_ns, False

    def _silent(self, now_ns: int) -> bool:
        call = self._board.current_call()
        starting = call == STARTING or call >= FIRST_LISTING
        limit = self._limits.start if starting else self._limits.answer
        return now_ns - self._board.heartbeat() > limit * SECOND

    def _give_up(self, now_ns: int) -> None:
        call = self._board.current_call()
        log.warning("GPU probe does not answer (call %d), killed", call)
        self._killed, self._hung_at_ns = True, now_ns
        if call >= 0:
            self._hold(call, now_ns)
        self._kill()

    def _hold(self, call: int, now_ns: int) -> None:
        seconds = min(self._limits.hold * 2 ** self._holds[call], self._limits.hold_most)
        self._holds[call] += 1
        until_ns = now_ns + int(seconds * SECOND)
        if call >= FIRST_LISTING:
            self._board.hold_listing(call - FIRST_LISTING, until_ns)
        for area in self._board.areas():
            if area.number == call:
                area.hold_until_ns = until_ns

    def _retry_later(self, now_ns: int) -> None:
        self._next_start_ns = now_ns + int(self._pause * SECOND)
        self._pause = min(2 * self._pause, self._limits.pause_most)

    def _kill(self) -> None:
        if self._process is None:
            return
        self._process.kill()
        try:
            self._process.wait(0.2)
        except subprocess.TimeoutExpired:
            log.warning("GPU probe %d can't be killed: its driver call does not return", self._process.pid)
