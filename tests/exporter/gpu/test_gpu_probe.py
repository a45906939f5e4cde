"""The probe process under faults of the driver: what is shown, how soon, and that it comes back by itself."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from hicache_exporter.sources.gpu_probe import GpuProbe
from hicache_exporter.sources.nvml_probe import Session
from hicache_exporter.sources.probe_board import Board

NO_WAIT = 0.25  # a driver call that hangs is given up after a second


def test_a_working_driver_shows_its_gpus(bench):
    bench.probe.start()
    reading = bench.wait_devices(a="present", b="present")
    assert (reading.state, reading.driver_version) == ("ok", "580.159")
    assert reading.age_seconds < 2
    assert bench.probe.expected() == ["GPU-a", "GPU-b"]


def test_before_its_first_report_the_probe_is_starting(bench):
    assert bench.probe.read().state == "starting"


@pytest.mark.parametrize(
    ("error", "state"),
    [
        ("LibraryNotFound", "no_driver"),
        ("DriverNotLoaded", "no_driver"),
        ("LibRmVersionMismatch", "driver_mismatch"),
        ("NoPermission", "no_permission"),
        ("Unknown", "failed"),
    ],
)
def test_a_driver_that_does_not_start_is_named_and_tried_again(bench, error, state):
    bench.world["init"] = error
    bench.apply()
    bench.probe.start()
    assert bench.wait_state(state).devices == ()
    assert bench.probe.restarts["ended"] == 0
    del bench.world["init"]
    bench.apply()
    bench.wait_devices(a="present", b="present")


WITHOUT_PYNVML = """
import sys
sys.modules["pynvml"] = None
from hicache_exporter.sources.nvml_probe import main
sys.exit(main(sys.argv[1:]))
"""


def test_without_the_python_package_it_says_so(tmp_path):
    probe = GpuProbe(tmp_path, (sys.executable, "-c", WITHOUT_PYNVML))
    probe.start()
    until = time.monotonic() + 15
    while probe.read().state == "starting" and time.monotonic() < until:
        time.sleep(0.05)
    reading = probe.read()
    probe.stop()
    assert (reading.state, reading.devices) == ("no_library", ())
    assert "pynvml" in reading.detail


def test_a_probe_that_dies_before_its_first_word_has_failed(tmp_path):
    probe = GpuProbe(tmp_path, (sys.executable, "-c", "raise SystemExit(3)"))
    probe.start()
    until = time.monotonic() + 15
    while probe.read().state == "starting" and time.monotonic() < until:
        time.sleep(0.05)
    probe.stop()
    assert probe.read().state == "failed"
    assert probe.restarts["ended"] >= 1


def test_without_gpus_it_says_so(bench):
    bench.world["gpus"] = []
    bench.apply()
    bench.probe.start()
    bench.wait_state("no_gpu")


def test_gpus_that_may_not_be_opened_are_told_from_no_gpus(bench):
    for gpu in bench.world["gpus"]:
        gpu["fail"] = {"nvmlDeviceGetHandleByIndex": "NoPermission"}
    bench.apply()
    bench.probe.start()
    bench.wait_state("no_permission")


@pytest.mark.parametrize("function", ["*", "nvmlDeviceGetMemoryInfo_v2", "nvmlDeviceGetFieldValues"])
def test_a_gpu_that_falls_off_the_bus_is_lost_and_comes_back(bench, function):
    bench.probe.start()
    bench.wait_devices(a="present", b="present")
    bench.gpu("GPU-b")["fail"] = {function: "GpuIsLost"}
    bench.apply()
    if function == "nvmlDeviceGetFieldValues":
        bench.wait(lambda reading: any("pcie_bytes" in gpu.unobservable for gpu in reading.devices))
    else:
        bench.wait(lambda reading: any(gpu.state != "present" for gpu in reading.devices))
    assert bench.probe.expected() == ["GPU-a", "GPU-b"]
    del bench.gpu("GPU-b")["fail"]
    bench.apply()
    whole = bench.wait_devices(a="present", b="present")
    bench.wait(lambda reading: all(not gpu.unobservable for gpu in reading.devices))
    assert whole.state == "ok"


def test_a_gpu_that_is_no_longer_listed_stays_expected(bench):
    bench.probe.start()
    bench.wait_devices(a="present", b="present")
    bench.gpu("GPU-b").update(listed=False, fail={"*": "GpuIsLost"})
    bench.apply()
    bench.wait_devices(a="present", b="unlisted")
    bench.gpu("GPU-b").update(listed=True, fail={})
    bench.apply()
    bench.wait_devices(a="present", b="present")


@pytest.mark.parametrize("function", ["nvmlDeviceGetPowerUsage", "nvmlDeviceGetFieldValues"])
def test_a_hung_call_costs_only_its_gpu_and_that_one_comes_back(bench, function):
    bench.probe.start()
    bench.wait_devices(a="present", b="present")
    bench.gpu("GPU-b")["fail"] = {function: "hang"}
    bench.apply()
    bench.wait_devices(a="present", b="hung")
    assert bench.probe.restarts["hung"] >= 1
    del bench.gpu("GPU-b")["fail"]
    bench.apply()
    bench.wait_devices(a="present", b="present")


def test_reading_never_waits_for_a_hung_driver(bench):
    bench.world["init"] = "hang"
    bench.apply()
    bench.probe.start()
    worst, until = 0.0, time.monotonic() + 4
    states = set()
    while time.monotonic() < until:
        began = time.monotonic()
        states.add(bench.probe.read().state)
        worst = max(worst, time.monotonic() - began)
        time.sleep(0.02)
    assert worst < NO_WAIT
    assert states == {"starting", "hung"}


def test_a_killed_probe_is_replaced_and_its_totals_go_on(bench):
    bench.gpu("GPU-a")["rx_rate"] = 1_000_000_000
    bench.apply()
    bench.probe.start()
    bench.wait_devices(a="present", b="present")
    bench.wait(lambda _: bench.probe.pcie_totals()["GPU-a"].rx > 100_000_000)
    before = bench.probe.pcie_totals()["GPU-a"]
    first = bench.probe._process.pid
    os.kill(first, signal.SIGKILL)
    bench.wait(lambda _: bench.probe._process is not None and bench.probe._process.pid != first)
    bench.wait(lambda _: bench.probe.pcie_totals()["GPU-a"].unsafe_gaps > before.unsafe_gaps)
    bench.wait(lambda _: bench.probe.pcie_totals()["GPU-a"].rx > before.rx)
    assert bench.probe.restarts["ended"] == 1


def test_a_stopped_probe_is_replaced(bench):
    bench.probe.start()
    bench.wait_devices(a="present", b="present")
    first = bench.probe._process.pid
    os.kill(first, signal.SIGSTOP)
    bench.wait(lambda _: bench.probe._process is not None and bench.probe._process.pid != first)
    bench.wait_devices(a="present", b="present")


def test_an_old_report_is_stale_and_shows_no_facts(bench):
    bench.probe.start()
    bench.wait_devices(a="present", b="present")
    bench.probe.stop()
    reading = bench.wait_state("stale")
    assert {facts.unobservable["device"] for facts in reading.devices} == {"no_report"}
    assert all(facts.memory_used_bytes is None for facts in reading.devices)


def test_stop_ends_the_probe_process_even_if_it_hangs(bench):
    bench.world["init"] = "hang"
    bench.apply()
    bench.probe.start()
    bench.wait(lambda _: bench.probe._process is not None)
    process = bench.probe._process
    began = time.monotonic()
    bench.probe.stop()
    assert time.monotonic() - began < 1.5
    assert process.poll() is not None


SIDECAR = """
import sys, time
from pathlib import Path
from hicache_exporter.sources.gpu_probe import GpuProbe
from hicache_exporter.sources.nvml_probe import Session
from hicache_exporter.sources.probe_board import Board
probe = GpuProbe(Path(sys.argv[1]), sys.argv[2:])
probe.start()
while probe.read().state != "ok":
    time.sleep(0.02)
print(probe._process.pid, flush=True)
time.sleep(60)
"""


def test_the_probe_ends_by_itself_when_its_sidecar_is_killed(bench):
    sidecar = subprocess.Popen(
        [sys.executable, "-c", SIDECAR, str(bench.rings), *bench.probe._command], stdout=subprocess.PIPE
    )
    with sidecar:
        pid = int(sidecar.stdout.readline())
        sidecar.kill()
    until = time.monotonic() + 10
    while time.monotonic() < until and running(pid):
        time.sleep(0.05)
    assert not running(pid)


def running(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except FileNotFoundError:
        return False


def test_bytes_between_two_moments_are_read_across_the_process_boundary(bench):
    bench.gpu("GPU-a")["rx_rate"] = 10_000_000_000
    bench.apply()
    bench.probe.start()
    bench.wait_devices(a="present", b="present")
    time.sleep(0.6)
    t0 = time.monotonic_ns()
    time.sleep(0.3)
    t1 = time.monotonic_ns()
    time.sleep(0.2)
    found = bench.probe.bytes_between("GPU-a", t0, t1)
    assert 10 * (t1 - t0) <= found.moved.rx <= 10 * (t1 - t0 + found.slack_ns)
    assert bench.probe.bytes_between("GPU-nowhere", t0, t1).why_not == "no such GPU is sampled"


def test_facts_are_read_one_gpu_at_a_time_so_that_the_byte_counters_are_read_between(nvml):
    board = Board.create()
    session = Session(nvml({"gpus": [{"uuid": f"GPU-{number}"} for number in range(3)]}), board, lambda _: 0)
    assert [session.read_facts(), session.read_facts(), board.snapshot()] == [False, False, None]
    assert session.read_facts()
    assert [facts.uuid for facts in board.snapshot().devices] == ["GPU-0", "GPU-1", "GPU-2"]
    board.close()
