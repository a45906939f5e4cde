"""The GPU probe: a process of its own that talks to NVIDIA's driver and writes what it learns on the board.

``python -m hicache_exporter.sources.nvml_probe BOARD_FD RING_FOLDER``. A driver call may never return; then the
sidecar sees the heartbeat stop, reads which call it was, kills this process and goes on. It ends by itself when the
sidecar is gone, and whenever NVML as a whole fails: the sidecar starts the next one after a pause.
"""

from __future__ import annotations

import importlib
import os
import signal
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from time import monotonic_ns
from typing import Any

from hicache_exporter.core.gpu_facts import GpuFacts, ProbeState, Snapshot
from hicache_exporter.sources.nvml import PASSING, START_STATES, read_facts, reason_of
from hicache_exporter.sources.pcie_counters import NotObservableError, PcieCounters
from hicache_exporter.sources.pcie_sampler import Gauge, PcieSampler
from hicache_exporter.sources.probe_board import FIRST_LISTING, STARTING, Board, DeviceArea
from hicache_exporter.sources.ring_heads import RingHeads

SECOND = 1_000_000_000
FACTS_EVERY_NS, FACTS_AT_REST_NS, ALL_EVERY_NS = 2 * SECOND, 5 * SECOND, 15 * SECOND
"""How often facts are read under load, and at rest; and those that cost much and hardly change or only grow."""
RELIST_NS, RELIST_MOST_NS = 15 * SECOND, 240 * SECOND
"""How soon a missing GPU is looked for again, doubled each time. NVML finds it only after a shutdown and a new start,
which costs the others a gap in their PCIe totals."""


class Session:
    """From one nvmlInit to the next: the GPUs that it lists, and what is read from them."""

    def __init__(self, nvml: Any, board: Board, activity: Callable[[int], int]) -> None:
        self._nvml, self._board = nvml, board
        self._handles: dict[str, tuple[int, Any, DeviceArea]] = {}
        self._missing: dict[str, GpuFacts] = {}
        self._blind: dict[str, str] = {}
        self._known: dict[str, GpuFacts] = {}
        self._unread: list[str] = []
        self._all_at_ns = 0
        self._refused: list[str] = []
        self.sampler = PcieSampler(board, activity)
        board.beat(monotonic_ns(), STARTING)
        nvml.nvmlInit()
        self._driver = nvml.nvmlSystemGetDriverVersion()
        for index in range(nvml.nvmlDeviceGetCount()):
            self._admit(index)
        for area in board.areas():
            if area.uuid not in self._handles and area.uuid not in self._missing:
                held = monotonic_ns() < area.hold_until_ns
                self._miss(area.uuid, "hung" if held else "unlisted")
        board.beat(monotonic_ns())

    def _admit(self, index: int) -> None:
        self._board.beat(monotonic_ns(), FIRST_LISTING + index)
        if monotonic_ns() < self._board.listing_hold(index):
            return
        try:
            handle = self._nvml.nvmlDeviceGetHandleByIndex(index)
            uuid = self._nvml.nvmlDeviceGetUUID(handle)
        except self._nvml.NVMLError as error:
            self._refused.append(reason_of(error))  # one seen before shows as unlisted, another has no name to show
            return
        area = self._board.area(uuid)
        if area is None:
            return
        if monotonic_ns() < area.hold_until_ns:
            self._miss(uuid, "hung")
            return
        self._handles[uuid] = (index, handle, area)
        self._board.beat(monotonic_ns(), area.number)
        try:
            self.sampler.add(uuid, Gauge(PcieCounters(self._nvml, handle), area))
        except NotObservableError as error:
            self._blind[uuid] = error.reason

    @property
    def incomplete(self) -> bool:
        """A GPU is missing, or its counters failed for a reason that may pass: worth a new session."""
        return bool(self._missing) or any(reason in PASSING for reason in self._blind.values())

    def lose(self, blind: Mapping[str, str]) -> None:
        """The counters of these GPUs (uuid) can't be read any more, and why."""
        self._blind.update(blind)

    def read_facts(self) -> bool:
        """Read the facts of the next GPU. True if all are read now, and published.

        One GPU at a time, as the sampler has to go on between: the facts of eight take as long as a counter's wrap.
        """
        now_ns = monotonic_ns()
        if not self._unread:
            self._unread = list(self._handles)
            if now_ns >= self._all_at_ns:
                self._all_at_ns = now_ns + ALL_EVERY_NS
                self._known.clear()
        if self._unread:
            self._read_facts_of(self._unread.pop(), now_ns)
        if self._unread:
            return False
        self._board.publish(self._snapshot())
        return True

    def _read_facts_of(self, uuid: str, now_ns: int) -> None:
        index, handle, area = self._handles[uuid]
        self._board.beat(now_ns, area.number)
        facts = read_facts(self._nvml, handle, uuid, index, self._known.get(uuid))
        self._board.beat(monotonic_ns())
        if facts.state != "present":
            self._miss(uuid, facts.state)
            return
        self._known[uuid] = facts

    def _snapshot(self) -> Snapshot:
        for uuid, reason in self._blind.items():
            if uuid in self._known:
                self._known[uuid].unobservable["pcie_bytes"] = reason
        devices = [self._known[uuid] for uuid in self._handles] + list(self._missing.values())
        return Snapshot(
            state="ok" if devices else self._empty_state(),
            taken_ns=monotonic_ns(),
            detail=", ".join(self._refused),
            driver_version=self._driver,
            devices=tuple(devices),
        )

    def _empty_state(self) -> ProbeState:
        if not self._refused:
            return "no_gpu"
        return "no_permission" if "no_permission" in self._refused else "failed"

    def _miss(self, uuid: str, state: Any) -> None:
        self._handles.pop(uuid, None)
        self.sampler.drop(uuid)
        self._missing[uuid] = GpuFacts(uuid=uuid, state=state, unobservable={"device": state})

    def close(self) -> None:
        self._board.beat(monotonic_ns(), STARTING)
        self._nvml.nvmlShutdown()


def serve(nvml: Any, board: Board, activity: Callable[[int], int], alive: Callable[[], bool]) -> None:
    """Probe until ``alive`` says no. NVML's own errors pass to the caller."""
    relist_ns = RELIST_NS
    while True:
        session = Session(nvml, board, activity)
        sampler = session.sampler
        facts_at_ns, relist_at_ns = 0, monotonic_ns() + relist_ns
        while True:
            now_ns = monotonic_ns()
            board.beat(now_ns)
            blind = sampler.step(now_ns)
            if now_ns >= facts_at_ns and session.read_facts():
                facts_at_ns = now_ns + (FACTS_AT_REST_NS if sampler.resting else FACTS_EVERY_NS)
            session.lose(blind | sampler.watch(facts_at_ns))
            if not alive():
                return
            if now_ns > relist_at_ns and session.incomplete:
                relist_ns = min(2 * relist_ns, RELIST_MOST_NS)
                break
        session.close()


def run(nvml: Any, fd: int, rings: Path) -> int:
    board = Board(fd)
    parent = os.getppid()
    board.beat(monotonic_ns(), STARTING)
    try:
        serve(nvml, board, RingHeads(rings).total, lambda: os.getppid() == parent)
    except nvml.NVMLError as error:
        state = START_STATES.get(type(error).__name__, "failed")
        board.publish(Snapshot(state=state, taken_ns=monotonic_ns(), detail=f"{reason_of(error)}: {error}"))
        return 1
    return 0


def main(arguments: Sequence[str]) -> int:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the sidecar, which ends this process in good order
    fd, rings = int(arguments[0]), Path(arguments[1])
    try:
        nvml = importlib.import_module("pynvml")
    except ImportError as error:
        Board(fd).publish(Snapshot(state="no_library", taken_ns=monotonic_ns(), detail=str(error)))
        return 1
    return run(nvml, fd, rings)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
