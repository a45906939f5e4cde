"""What the PCIe sampler costs: the real probe process on a stand-in for NVML whose byte-counter call takes 0.31 ms.

    python benchmarks/pcie_sampler.py [--gpus 1] [--seconds 10]

0.31 ms is what the call takes on an H200, all of it processor time. Busy: 20 GB/s reach the GPU; what a reading costs
is taken 50 times a second, since a loaded machine wakes the sampler late and so less often. Idle: 10 kB/s. The floor is
a bare loop in the same run that only sleeps 20 ms and burns 0.31 ms: 50 calls a second with no sampler around them.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path

import form
import processes

from hicache_exporter.sources.probe_board import Board

CALL_SECONDS = 0.00031
SETTLE_SECONDS = 3
BUSY_RATE, IDLE_RATE = 20_000_000_000, 10_000
HERTZ = 50
STAND_IN = Path(__file__).parents[1] / "tests" / "exporter" / "gpu"
CHILD = f"""
import json, sys
sys.path.insert(0, {str(STAND_IN)!r})
from pathlib import Path
from fake_nvml import FakeNvml
from hicache_exporter.sources import nvml_probe
nvml = FakeNvml(json.loads(sys.argv[1]), call_seconds={CALL_SECONDS})
sys.exit(nvml_probe.run(nvml, int(sys.argv[2]), Path("/nowhere")))
"""


def measure(gpus: int, rate: int, seconds: float) -> dict[str, float]:
    """Per GPU: share of a core and readings a second of the probe; every GPU receives ``rate`` bytes a second."""
    world = json.dumps({"gpus": [{"uuid": f"GPU-{number}", "rx_rate": rate} for number in range(gpus)]})
    board = Board.create()
    child = subprocess.Popen([sys.executable, "-c", CHILD, world, str(board.fd)], pass_fds=[board.fd])
    try:
        time.sleep(SETTLE_SECONDS)
        cpu, began, readings = processes.cpu_seconds(child.pid), time.monotonic(), count(board)
        time.sleep(seconds)
        cpu, wall, readings = processes.cpu_seconds(child.pid) - cpu, time.monotonic() - began, count(board) - readings
        unsafe = sum(area.unsafe_gaps for area in board.areas())
    finally:
        child.kill()
        child.wait()
        board.close()
    return {"readings": readings / wall / gpus, "share": cpu / wall / gpus, "unsafe_gaps": unsafe}


def floor(seconds: float) -> float:
    """Seconds of processor time that one turn of the bare loop takes."""
    cpu, began, turns = time.process_time(), time.monotonic(), 0
    while time.monotonic() - began < seconds:
        turns += 1
        until = time.perf_counter() + CALL_SECONDS
        while time.perf_counter() < until:
            pass
        time.sleep(1 / HERTZ)
    return (time.process_time() - cpu) / turns


def count(board: Board) -> int:
    return sum(area.count for area in board.areas())


def main() -> int:
    options = form.options(__doc__)
    options.add_argument("--gpus", type=int, default=1)
    options.add_argument("--seconds", type=float, default=10)
    given = options.parse_args()
    bench = form.Bench("pcie_sampler", given.history)
    bare = floor(given.seconds)
    busy, idle = (measure(given.gpus, rate, given.seconds) for rate in (BUSY_RATE, IDLE_RATE))
    share = 100 * HERTZ * busy["share"] / busy["readings"]
    bench.add("busy, 50 readings a second", share, "% of a core a GPU", form.at_most(2))
    bench.add("of these, the driver's call and waking up (the floor)", 100 * HERTZ * bare, "% of a core a GPU")
    bench.add("readings a second while busy", busy["readings"], "/s")
    bench.add("idle", 100 * idle["share"], "% of a core a GPU", form.at_most(0.2))
    bench.add("gaps in which a counter may have wrapped unseen", busy["unsafe_gaps"] + idle["unsafe_gaps"], "")
    return bench.end()


if __name__ == "__main__":
    sys.exit(main())
