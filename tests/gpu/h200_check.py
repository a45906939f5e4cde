"""GPU probe and PCIe sampler on a real GPU: what NVML tells, whether the bytes add up, and what watching costs.

``python tests/gpu/h200_check.py [--quick]`` prints one JSON object; exit 1 if a check fails. Needs torch with CUDA,
nvidia-ml-py and msgspec, no pytest; run it on an otherwise idle GPU. Nothing is installed, no setting is touched.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
PARTS = [str(ROOT / part) for part in ("exporter", "tracing_patch", "proof")]
sys.path[:0] = PARTS
os.environ["PYTHONPATH"] = os.pathsep.join([*PARTS, os.environ.get("PYTHONPATH", "")])  # for the probe process

import msgspec  # noqa: E402
import pynvml  # noqa: E402
import torch  # noqa: E402

from hicache_exporter.core.pcie_window import BusWindow  # noqa: E402
from hicache_exporter.sources.gpu_probe import GpuProbe  # noqa: E402
from hicache_exporter.sources.pcie_counters import BOTH, RX, TX, PcieCounters  # noqa: E402
from hicache_tracing.recorder import Recorder  # noqa: E402
from hicache_tracing.records import Kind  # noqa: E402

OVERHEAD, TOLERANCE = 1.078, 0.005
MIB, GIB = 1 << 20, 1 << 30
LOAD_BACK = 1_835_008_000
BUSY_SHARE, IDLE_SHARE = 0.02, 0.002


class Bench:
    """The probe as the sidecar runs it, a ring as an engine writes it, and copies of known size."""

    def __init__(self, folder: Path) -> None:
        self.recorder = Recorder(str(folder / "rings"), 1024)
        self.probe = GpuProbe(folder / "rings")
        self.probe.start()
        properties = torch.cuda.get_device_properties(0)
        self.uuid = f"GPU-{properties.uuid}"
        self.host = torch.empty(GIB, dtype=torch.uint8, pin_memory=True)
        self.device = torch.empty(GIB, dtype=torch.uint8, device="cuda")

    def ready(self) -> None:
        until = time.monotonic() + 60
        while self.uuid not in {facts.uuid for facts in self.probe.read().devices if facts.state == "present"}:
            if time.monotonic() > until:
                raise SystemExit(f"the probe shows no {self.uuid} within 60 s: {self.probe.read()}")
            time.sleep(0.1)

    def copy(self, size: int, *, to_device: bool = True) -> int:
        """Move ``size`` bytes, in pieces of at most 1 GiB; the rate in bytes a second."""
        began, left = time.perf_counter(), size
        while left:
            piece = min(left, GIB)
            source, target = (self.host, self.device) if to_device else (self.device, self.host)
            target[:piece].copy_(source[:piece], non_blocking=True)
            left -= piece
        torch.cuda.synchronize()
        return int(size / (time.perf_counter() - began))

    def record(self) -> None:
        """What an engine does just before a load-back."""
        self.recorder.write(Kind.LOOKUP, self.recorder.key("check"), 32000, 0, 32000, 0, 1)

    def window(self, size: int, *, recorded: bool = True, to_device: bool = True) -> dict[str, Any]:
        """Copy, then ask what crossed the bus between before and after."""
        if recorded:
            self.record()
        t0 = time.monotonic_ns()
        rate = self.copy(size, to_device=to_device)
        t1 = time.monotonic_ns()
        time.sleep(2.2)  # out of a rest that nothing ended, the next reading is up to two seconds away
        return describe(self.probe.bytes_between(self.uuid, t0, t1), size, rate, to_device=to_device)


def describe(seen: BusWindow, size: int, rate: int, *, to_device: bool) -> dict[str, Any]:
    found: dict[str, Any] = {"payload_bytes": size, "copy_bytes_per_second": rate, "why_not": seen.why_not}
    found["usable"], found["exact"] = seen.usable, seen.exact
    if seen.moved is not None and seen.baseline is not None:
        moved, baseline = (seen.moved.rx, seen.baseline.rx) if to_device else (seen.moved.tx, seen.baseline.tx)
        found |= {"bus_bytes": moved, "baseline_bytes": baseline, "ratio": round((moved - baseline) / size, 5)}
    if seen.slack_ns is not None:
        found["slack_ms"] = round(seen.slack_ns / 1e6, 2)
    return found


def within(ratio: float | None) -> bool:
    return ratio is not None and abs(ratio / OVERHEAD - 1) <= TOLERANCE


def cpu_seconds(pid: int) -> float:
    return int(Path(f"/proc/{pid}/schedstat").read_text().split()[0]) / 1e9


def probe_cost(bench: Bench, seconds: float, *, busy: bool) -> dict[str, float]:
    """Share of one core that the probe process takes, and its readings of each of this GPU's counters a second."""
    pid = bench.probe._process.pid  # type: ignore[union-attr]
    area = next(area for area in bench.probe._board.areas() if area.uuid == bench.uuid)
    cpu, sent, received, began = cpu_seconds(pid), area.tx.count, area.rx.count, time.monotonic()
    while time.monotonic() - began < seconds:
        if busy:
            bench.record()
        time.sleep(0.1)
    wall = time.monotonic() - began
    gpus = len(bench.probe.expected())
    share = (cpu_seconds(pid) - cpu) / wall
    return {
        "core_share": round(share, 5),
        "core_share_per_gpu": round(share / gpus, 5),
        "tx_readings_per_second": round((area.tx.count - sent) / wall, 2),
        "rx_readings_per_second": round((area.rx.count - received) / wall, 2),
    }


def call_cost() -> dict[str, Any]:
    """What one reading takes, of one counter and of both, and what else NVML says of the link."""
    pynvml.nvmlInit()
    handle = pynvml.nvmlDeviceGetHandleByIndex(0)
    counters = PcieCounters(pynvml, handle)
    fields = pynvml.nvmlDeviceGetFieldValues(handle, [197, 198, pynvml.NVML_FI_DEV_C2C_LINK_COUNT])
    found = {
        "tx": reading_cost(counters, TX),
        "rx": reading_cost(counters, RX),
        "both": reading_cost(counters, BOTH),
        "turn_without_a_call_cpu_ms": turn_cost(lambda: None),
        "wrap_ms": round(counters.wrap_ns / 1e6, 2),
        "field_types": [(field.fieldId, field.valueType, field.nvmlReturn) for field in fields],
    }
    pynvml.nvmlShutdown()
    return found


def reading_cost(counters: PcieCounters, which: int) -> dict[str, float]:
    """Milliseconds: in a tight loop, and of a bare loop's turn that sleeps 20 ms and reads."""
    cpu, times = time.process_time(), []
    for _ in range(300):
        before_ns, after_ns, _ = counters.read(which)
        times.append((after_ns - before_ns) / 1e6)
    return {
        "wall_ms_median": round(statistics.median(times), 4),
        "wall_ms_p99": round(sorted(times)[-3], 4),
        "cpu_ms": round((time.process_time() - cpu) / 300 * 1e3, 4),
        "turn_cpu_ms": turn_cost(lambda: counters.read(which)),
    }


def turn_cost(call: Callable[[], object], turns: int = 150) -> float:
    """Milliseconds of processor time for a sleep of 20 ms and the call behind it."""
    cpu = time.process_time()
    for _ in range(turns):
        time.sleep(0.02)
        call()
    return round((time.process_time() - cpu) / turns * 1e3, 4)


def run(bench: Bench, *, quick: bool) -> dict[str, Any]:
    seconds, bulk = (5.0, 20) if quick else (20.0, 220)
    results: dict[str, Any] = {"call": call_cost()}
    reading = bench.probe.read()
    results["driver"] = reading.driver_version
    results["facts"] = [msgspec.to_builtins(facts) for facts in reading.devices]
    time.sleep(3)
    results["idle"] = probe_cost(bench, seconds, busy=False)
    results["busy"] = probe_cost(bench, seconds, busy=True)
    bench.copy(GIB)
    time.sleep(4)
    results["load_back_out_of_rest"] = bench.window(LOAD_BACK)
    bench.record()
    time.sleep(0.1)
    results["load_back_awake"] = bench.window(LOAD_BACK)
    results["single_copies"] = [bench.window(size) for size in (8 * MIB, 64 * MIB, GIB)]
    results["two_wraps"] = bench.window(9 * GIB)
    results["bulk"] = bench.window(bulk * 10**9)
    results["device_to_host"] = bench.window(4 * GIB, to_device=False)
    time.sleep(4)
    results["unannounced_out_of_rest"] = bench.window(9 * GIB, recorded=False)
    results["unsafe_gaps"] = bench.probe.pcie_totals()[bench.uuid].unsafe_gaps
    results["restarts"] = dict(bench.probe.restarts)
    return results


def checks(results: dict[str, Any]) -> dict[str, bool]:
    exact = ("load_back_out_of_rest", "load_back_awake", "two_wraps", "bulk")
    unannounced = results["unannounced_out_of_rest"]
    return {
        **{f"{name}_within_half_a_percent": within(results[name].get("ratio")) for name in exact},
        "load_backs_usable": all(results[name]["usable"] for name in exact),
        "unannounced_is_right_or_flagged": within(unannounced.get("ratio")) or not unannounced["usable"],
        "busy_share": results["busy"]["core_share_per_gpu"] < BUSY_SHARE,
        "busy_rate": min(results["busy"][f"{way}_readings_per_second"] for way in ("tx", "rx")) > 22.5,
        "idle_share": results["idle"]["core_share_per_gpu"] < IDLE_SHARE,
        "probe_never_restarted": not any(results["restarts"].values()),
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="20 GB in bulk and 5 s a phase instead of 220 GB and 20 s")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        bench = Bench(Path(folder))
        try:
            bench.ready()
            results = run(bench, quick=options.quick)
        finally:
            bench.probe.stop()
    results["checks"] = checks(results)
    print(json.dumps(results, indent=2))
    return 0 if all(results["checks"].values()) else 1


if __name__ == "__main__":
    sys.exit(main())
