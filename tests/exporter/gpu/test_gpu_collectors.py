"""The metric families of GPU and bus, from the probe's report."""

import os
import signal
import time

import pytest

from hicache_exporter.collectors.gpu import GpuCollector
from hicache_exporter.collectors.pcie import PcieCollector
from hicache_exporter.core.gpu_facts import PROBE_STATES, GpuFacts, Snapshot
from hicache_exporter.core.memory_split import EngineMemory
from hicache_exporter.core.pcie_meter import Gap
from hicache_exporter.core.rank_process import RankProcess
from hicache_exporter.names import FAMILIES
from hicache_exporter.sources.gpu_probe import GpuProbe
from hicache_exporter.sources.host import Host
from hicache_exporter.sources.nvml import read_facts

BUDGET = 0.25  # a driver call that hangs is given up after a second


def samples(collector):
    found = {}
    for metric in collector.collect():
        family = FAMILIES[metric.name]
        for sample in metric.samples:
            assert set(sample.labels) == set(family.labels)
            found[sample.name, *sample.labels.values()] = sample.value
    return found


@pytest.fixture
def reported(tmp_path):
    """Publishes what a probe would have reported, and gives the families made of it."""
    probe = GpuProbe(tmp_path)

    def publish(*devices, state="ok", ranks=(), traffic=(1000, 5000), age=0.0):
        for facts in devices:
            area = probe._board.area(facts.uuid)
            for history, total, gap in zip((area.tx, area.rx), traffic, (Gap.EXACT, Gap.UNSAFE), strict=True):
                history.append(1, 2, 0, Gap.BREAK)
                history.append(3, 4, total, gap)
        taken = time.monotonic_ns() - int(age * 1e9)
        probe._board.publish(Snapshot(state=state, taken_ns=taken, driver_version="580.159", devices=devices))
        return samples(GpuCollector(probe, Host(tmp_path), lambda: ranks)) | samples(PcieCollector(probe))

    yield publish
    probe.stop()


@pytest.fixture
def healthy(nvml):
    return read_facts(nvml({"gpus": [{"uuid": "GPU-a"}]}), "GPU-a", "GPU-a", 0)


def test_a_healthy_gpu(reported, healthy, tmp_path):
    node = tmp_path / "sys/bus/pci/devices/0000:18:00.0/numa_node"
    node.parent.mkdir(parents=True)
    node.write_text("1\n")
    found = {name: value for name, value in reported(healthy).items() if "GPU-a" in name}
    events = {name: found.pop(name) for name in list(found) if name[0] == "hicache_gpu_clock_event"}
    assert found == {
        ("hicache_gpu_info", "GPU-a", "0", "NVIDIA H200", "00000000:18:00.0", "580.159"): 1,
        ("hicache_gpu_expected", "GPU-a"): 1,
        ("hicache_gpu_present", "GPU-a"): 1,
        ("hicache_gpu_numa_node", "GPU-a"): 1,
        ("hicache_gpu_memory_size_bytes", "GPU-a"): 150_754_820_096,
        ("hicache_gpu_memory_used_bytes", "GPU-a"): 100_000_000_000,
        ("hicache_gpu_memory_driver_bytes", "GPU-a"): 754_820_096,
        ("hicache_gpu_process_memory_bytes", "GPU-a", "4242"): 99_000_000_000,  # and pid 7 tells none
        ("hicache_gpu_utilization_ratio", "GPU-a"): 0.87,
        ("hicache_gpu_memory_utilization_ratio", "GPU-a"): 0.41,
        ("hicache_gpu_power_watts", "GPU-a"): 412.345,
        ("hicache_gpu_power_limit_watts", "GPU-a"): 700,
        ("hicache_gpu_energy_joules_total", "GPU-a"): 123_456.789,
        ("hicache_gpu_temperature_celsius", "GPU-a"): 54,
        ("hicache_gpu_ecc_errors_total", "GPU-a", "corrected"): 3,
        ("hicache_gpu_ecc_errors_total", "GPU-a", "uncorrected"): 0,
        ("hicache_pcie_link_generation", "GPU-a", "current"): 4,
        ("hicache_pcie_link_generation", "GPU-a", "max"): 5,
        ("hicache_pcie_link_lanes", "GPU-a", "current"): 8,
        ("hicache_pcie_link_lanes", "GPU-a", "max"): 16,
        ("hicache_pcie_replays_total", "GPU-a"): 2,
        ("hicache_pcie_bytes_total", "GPU-a", "host_to_device"): 5000,
        ("hicache_pcie_bytes_total", "GPU-a", "device_to_host"): 1000,
        ("hicache_pcie_unsafe_gaps_total", "GPU-a"): 1,
    }
    assert {name[2] for name, value in events.items() if value} == {"sw_power_cap", "hw_thermal_slowdown"}
    assert events["hicache_gpu_clock_event", "GPU-a", "gpu_idle"] == 0


def test_what_the_gpu_receives_went_from_host_to_device(reported, healthy):
    found = reported(healthy, traffic=(1000, 5000))
    assert found["hicache_pcie_bytes_total", "GPU-a", "host_to_device"] == 5000
    assert found["hicache_pcie_bytes_total", "GPU-a", "device_to_host"] == 1000
    assert found["hicache_pcie_unsafe_gaps_total", "GPU-a"] == 1


def test_counters_that_never_moved_are_not_observable_instead_of_zero(reported, healthy):
    found = reported(healthy, traffic=(0, 0))
    assert found["hicache_gpu_unobservable", "GPU-a", "pcie_bytes", "never_moved"] == 1
    assert not any(name[0] == "hicache_pcie_bytes_total" for name in found)


def test_an_unobservable_fact_has_a_reason_and_no_series(reported):
    facts = GpuFacts(uuid="GPU-a", memory_used_bytes=1, unobservable={"power": "not_supported", "pcie_bytes": "mig"})
    found = reported(facts)
    assert found["hicache_gpu_unobservable", "GPU-a", "power", "not_supported"] == 1
    assert found["hicache_gpu_unobservable", "GPU-a", "pcie_bytes", "mig"] == 1
    assert ("hicache_gpu_power_watts", "GPU-a") not in found
    assert ("hicache_pcie_bytes_total", "GPU-a", "host_to_device") not in found


def test_a_lost_gpu_is_expected_and_not_present_and_shows_nothing_else(reported, healthy):
    reported(healthy)
    found = reported(GpuFacts(uuid="GPU-a", state="lost", unobservable={"device": "lost"}))
    of_gpu = {name for name in found if "GPU-a" in name}
    assert of_gpu == {
        ("hicache_gpu_expected", "GPU-a"),
        ("hicache_gpu_present", "GPU-a"),
        ("hicache_gpu_unobservable", "GPU-a", "device", "lost"),
    }
    assert found["hicache_gpu_present", "GPU-a"] == 0


@pytest.mark.parametrize("state", ["no_library", "no_driver", "no_gpu", "no_permission", "driver_mismatch", "failed"])
def test_without_gpus_exactly_one_state_says_why(reported, state):
    found = reported(state=state)
    states = {name[1]: value for name, value in found.items() if name[0] == "hicache_gpu_source"}
    assert set(states) == set(PROBE_STATES)
    assert {name for name, value in states.items() if value} == {state}


def test_an_old_report_is_stale_and_all_its_series_are_gone(reported, healthy):
    found = reported(healthy, age=60)
    assert found["hicache_gpu_source", "stale"] == 1
    assert found["hicache_gpu_present", "GPU-a"] == 0
    assert found["hicache_gpu_report_age_seconds",] >= 60
    assert not any(name[0] in ("hicache_gpu_memory_used_bytes", "hicache_pcie_bytes_total") for name in found)


def rank(uuid, **parts):
    memory = EngineMemory(**{"reserved": 90, "weights": 20, "kv_pool": 60} | parts)
    return RankProcess("127.0.0.1:30000", "tp0", 1, 0, gpu_uuid=uuid, memory=memory)


def parts_of(found):
    return {name[2]: value for name, value in found.items() if name[0] == "hicache_gpu_memory_bytes"}


def test_used_memory_is_explained_by_the_engine_on_that_gpu(reported):
    facts = [GpuFacts(uuid=f"GPU-{name}", memory_used_bytes=100) for name in "ab"]
    found = reported(*facts, ranks=[rank("GPU-b")])
    assert parts_of(found) == {"weights": 20, "kv_pool": 60, "allocator_reserved": 10, "other": 10}
    assert all(name[1] == "GPU-b" for name in found if name[0] == "hicache_gpu_memory_bytes")


def test_an_engine_that_does_not_tell_its_gpu_is_on_the_only_one_or_nowhere(reported):
    one = GpuFacts(uuid="GPU-a", memory_used_bytes=100)
    assert parts_of(reported(one, ranks=[rank(None)]))["other"] == 10
    two = GpuFacts(uuid="GPU-b", memory_used_bytes=100)
    assert parts_of(reported(one, two, ranks=[rank(None)])) == {}


def test_an_engine_without_a_word_on_its_memory_leaves_nothing_explained(reported):
    silent = RankProcess("127.0.0.1:30000", "tp0", 1, 0, gpu_uuid="GPU-a")
    assert parts_of(reported(GpuFacts(uuid="GPU-a", memory_used_bytes=100), ranks=[silent, rank("GPU-a")])) == {}


def test_the_scrape_keeps_its_budget_while_the_driver_hangs_and_the_device_shows_as_gone(bench, tmp_path):
    collectors = GpuCollector(bench.probe, Host(tmp_path), list), PcieCollector(bench.probe)
    bench.probe.start()
    bench.wait_devices(a="present", b="present")
    for gpu in bench.world["gpus"]:
        gpu["fail"] = {"*": "hang"}
    bench.world["init"] = "hang"
    bench.apply()
    worst, gone, until = 0.0, False, time.monotonic() + 20
    while not gone and time.monotonic() < until:
        began = time.monotonic()
        found = samples(collectors[0]) | samples(collectors[1])
        worst = max(worst, time.monotonic() - began)
        gone = found["hicache_gpu_present", "GPU-a"] == 0 and found["hicache_gpu_source", "hung"] == 1
        time.sleep(0.02)
    assert gone
    assert found["hicache_gpu_expected", "GPU-a"] == 1
    assert worst < BUDGET


def test_a_killed_probe_costs_no_series_while_its_report_is_fresh(bench, tmp_path):
    collector = GpuCollector(bench.probe, Host(tmp_path), list)
    bench.probe.start()
    bench.wait_devices(a="present", b="present")
    os.kill(bench.probe._process.pid, signal.SIGKILL)
    assert samples(collector)["hicache_gpu_present", "GPU-a"] == 1
    bench.wait(lambda _: bench.probe.restarts["ended"] == 1)
    bench.wait_devices(a="present", b="present")
    assert samples(collector)["hicache_gpu_probe_restarts_total", "ended"] == 1
