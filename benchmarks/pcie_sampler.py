"""What the PCIe sampler costs: the real probe process on a stand-in for NVML whose byte-counter call takes 0.31 ms.

``python benchmarks/pcie_sampler.py [--gpus 1] [--seconds 20]`` prints JSON. Targets: under 2 % of one core a GPU at
50 readings a second, under 0.2 % at rest. ``floor`` is a bare loop in the same run that only sleeps 20 ms and burns
0.31 ms: what 50 calls a second cost on this machine with no sampler around them.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from pathlib import Path

from hicache_exporter.sources.probe_board import Board

CALL_SECONDS = 0.00031
SETTLE_SECONDS = 3
BUSY_RATE, IDLE_RATE = 20_000_000_000, 10_000
TARGETS = {"busy": 0.02, "idle": 0.002}
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


def cpu_seconds(pid: int) -> float:
    return int(Path(f"/proc/{pid}/schedstat").read_text().split()[0]) / 1e9


def measure(gpus: int, rate: int, seconds: float) -> dict[str, float]:
    """CPU share and readings a second of one probe process; every GPU receives ``rate`` bytes a second."""
    world = json.dumps({"gpus": [{"uuid": f"GPU-{number}", "rx_rate": rate} for number in range(gpus)]})
    board = Board.create()
    child = subprocess.Popen([sys.executable, "-c", CHILD, world, str(board.fd)], pass_fds=[board.fd])
    try:
        time.sleep(SETTLE_SECONDS)
        cpu, began, readings = cpu_seconds(child.pid), time.monotonic(), count(board)
        time.sleep(seconds)
        cpu, wall, readings = cpu_seconds(child.pid) - cpu, time.monotonic() - began, count(board) - readings
        unsafe = sum(area.unsafe_gaps for area in board.areas())
    finally:
        child.kill()
        child.wait()
        board.close()
    return {
        "readings_per_second": round(readings / wall / gpus, 1),
        "core_share_per_gpu": round(cpu / wall / gpus, 5),
        "core_share": round(cpu / wall, 5),
        "unsafe_gaps": unsafe,
    }


def floor(seconds: float) -> float:
    """Share of one core of the bare loop."""
    cpu, began = time.process_time(), time.monotonic()
    while time.monotonic() - began < seconds:
        wake = time.perf_counter() + 0.02
        until = time.perf_counter() + CALL_SECONDS
        while time.perf_counter() < until:
            pass
        time.sleep(max(0, wake - time.perf_counter()))
    return round((time.process_time() - cpu) / (time.monotonic() - began), 5)


def count(board: Board) -> int:
    return sum(area.count for area in board.areas())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gpus", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=20)
    options = parser.parse_args()
    results: dict[str, object] = {"call_seconds": CALL_SECONDS, "gpus": options.gpus}
    results["floor"] = floor(options.seconds)
    for phase, rate in (("busy", BUSY_RATE), ("idle", IDLE_RATE)):
        found = measure(options.gpus, rate, options.seconds)
        results[phase] = {**found, "target": TARGETS[phase], "met": found["core_share_per_gpu"] < TARGETS[phase]}
    print(json.dumps(results, indent=2))


if __name__ == "__main__":
    main()
