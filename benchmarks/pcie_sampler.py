"""What the PCIe sampler costs: the real probe process on a stand-in for NVML whose calls take what the driver's take.

    python benchmarks/pcie_sampler.py [--gpus 1] [--seconds 10]

Measured on an H200 with driver 580 (tests/gpu/h200_check.py): a bare loop's turn, a sleep of 20 ms and a call for one
byte counter, takes 0.35 ms of processor time, for both 0.51 ms; 0.06 ms of it is waking up. In another machine waking
up takes more or less. So it is measured here first, and a call of the stand-in burns what is left of those turns. Busy:
20 GB/s reach the GPU. 50 readings a second, each of one direction in turn, find each direction every 40 ms; a loaded
machine wakes the sampler late and so less often, so what a reading costs is taken 50 times. Idle: 10 kB/s, a reading of
both every two seconds. The floor is a bare loop in the same run, a sleep and a call 50 times a second with no sampler
around them.
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

TURN_SECONDS = {1: 0.00035, 2: 0.00051}
"""Of waking up and a call for so many fields."""
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
world, calls, board = json.loads(sys.argv[1]), json.loads(sys.argv[2]), int(sys.argv[3])
nvml = FakeNvml(world, call_seconds={{int(fields): seconds for fields, seconds in calls.items()}})
sys.exit(nvml_probe.run(nvml, board, Path("/nowhere")))
"""


def measure(gpus: int, rate: int, seconds: float, calls: dict[int, float]) -> dict[str, float]:
    """Per GPU: share of a core and readings a second of the probe; every GPU receives ``rate`` bytes a second."""
    world = json.dumps({"gpus": [{"uuid": f"GPU-{number}", "rx_rate": rate} for number in range(gpus)]})
    board = Board.create()
    child = subprocess.Popen(
        [sys.executable, "-c", CHILD, world, json.dumps(calls), str(board.fd)], pass_fds=[board.fd]
    )
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


def turn(seconds: float, call_seconds: float) -> float:
    """Seconds of processor time that one turn of a bare loop takes: a sleep, and a call."""
    cpu, began, turns = time.process_time(), time.monotonic(), 0
    while time.monotonic() - began < seconds:
        turns += 1
        until = time.perf_counter() + call_seconds
        while time.perf_counter() < until:
            pass
        time.sleep(1 / HERTZ)
    return (time.process_time() - cpu) / turns


def count(board: Board) -> int:
    return sum(area.tx.count + area.rx.count for area in board.areas())


def main() -> int:
    options = form.options(__doc__)
    options.add_argument("--gpus", type=int, default=1)
    options.add_argument("--seconds", type=float, default=10)
    given = options.parse_args()
    bench = form.Bench("pcie_sampler", given.history)
    waking = turn(given.seconds, 0) / given.gpus  # one wake-up serves all GPUs
    calls = {fields: max(0.0, whole - waking) for fields, whole in TURN_SECONDS.items()}
    bare = turn(given.seconds, given.gpus * calls[1]) / given.gpus
    busy, idle = (measure(given.gpus, rate, given.seconds, calls) for rate in (BUSY_RATE, IDLE_RATE))
    share = 100 * HERTZ * busy["share"] / busy["readings"]
    bench.add("busy, 50 readings a second", share, "% of a core a GPU", form.at_most(2))
    bench.add("of these, the driver's call and waking up (the floor)", 100 * HERTZ * bare, "% of a core a GPU")
    bench.add("of these, waking up", 100 * HERTZ * waking, "% of a core a GPU")
    bench.add("readings a second while busy", busy["readings"], "/s")
    bench.add("idle", 100 * idle["share"], "% of a core a GPU", form.at_most(0.2))
    bench.add("gaps in which a counter may have wrapped unseen", busy["unsafe_gaps"] + idle["unsafe_gaps"], "")
    return bench.end()


if __name__ == "__main__":
    sys.exit(main())
