"""What is read of one GPU, and how a fact that can't be read is told from one that is zero."""

import pynvml
import pytest
from fake_nvml import FakeNvml

from hicache_exporter.core.gpu_facts import GpuProcess
from hicache_exporter.sources.nvml import CLOCK_EVENTS, RARE_FIELDS, RARELY, READERS, read_facts
from hicache_exporter.sources.pcie_counters import BOTH, RX, TX, NotObservableError, PcieCounters


class Counting:
    """An NVML, and which of its functions were called."""

    def __init__(self, nvml):
        self.called = set()
        self._nvml = nvml

    def __getattr__(self, name):
        self.called.add(name)
        return getattr(self._nvml, name)


def gpu(**properties):
    return FakeNvml({"gpus": [{"uuid": "GPU-a", **properties}]})


def facts(**properties):
    return read_facts(gpu(**properties), "GPU-a", "GPU-a", 0)


def test_all_facts_of_a_healthy_gpu():
    found = facts()
    assert found.state == "present"
    assert found.unobservable == {}
    assert (found.name, found.bus_id, found.mig) == ("NVIDIA H200", "00000000:18:00.0", False)
    assert (found.memory_total_bytes, found.memory_used_bytes) == (150_754_820_096, 100_000_000_000)
    assert found.memory_reserved_bytes == 754_820_096
    assert (found.utilization_ratio, found.memory_utilization_ratio) == (0.87, 0.41)
    assert (found.power_watts, found.power_limit_watts, found.energy_joules) == (412.345, 700, 123_456.789)
    assert found.temperature_celsius == 54
    assert found.clock_events == ("sw_power_cap", "hw_thermal_slowdown")
    assert (found.ecc_corrected, found.ecc_uncorrected) == (3, 0)
    assert (found.pcie_generation, found.pcie_generation_max) == (4, 5)
    assert (found.pcie_width, found.pcie_width_max, found.pcie_replays) == (8, 16, 2)
    assert found.processes == (GpuProcess(4242, 99_000_000_000), GpuProcess(7, None))


def test_what_costs_much_and_hardly_changes_is_taken_from_a_moment_ago():
    changed = {"fail": {"nvmlDeviceGetTotalEccErrors": "NotSupported"}}
    known = facts(fail={"nvmlDeviceGetPcieReplayCounter": "NotSupported"})
    asked = Counting(gpu(**changed))
    again = read_facts(asked, "GPU-a", "GPU-a", 0, known)
    assert not asked.called & {"nvmlDeviceGetTotalEnergyConsumption", "nvmlDeviceGetMigMode", "nvmlDeviceGetName"}
    assert {"nvmlDeviceGetPowerUsage", "nvmlDeviceGetUtilizationRates"} <= asked.called
    assert again == known, "all of it, and why a fact is missing"


def test_every_fact_has_the_fields_of_its_reader():
    """Else a fact that is read rarely would be missing in between."""
    rare = {name for fact in RARELY for name in READERS[fact](gpu(), "GPU-a")}
    assert rare == set(RARE_FIELDS)


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        ("NotSupported", "not_supported"),
        ("FunctionNotFound", "not_supported"),
        ("NoPermission", "no_permission"),
        ("Unknown", "error"),
    ],
)
def test_a_fact_that_fails_is_named_with_its_reason_and_costs_no_other(error, reason):
    found = facts(fail={"nvmlDeviceGetPowerUsage": error})
    assert found.unobservable == {"power": reason}
    assert found.power_watts is None
    assert found.power_limit_watts == 700
    assert found.state == "present"


def test_every_fact_may_fail_on_its_own():
    functions = [name for name in dir(FakeNvml) if name.startswith("nvmlDeviceGet") and name not in LISTING]
    failing = {name: "NotSupported" for name in functions if name != "nvmlDeviceGetMemoryInfo"}
    found = facts(fail=failing | {"nvmlDeviceGetMemoryInfo_v2": "NotSupported"})
    assert set(found.unobservable) == set(READERS)


LISTING = ("nvmlDeviceGetCount", "nvmlDeviceGetHandleByIndex", "nvmlDeviceGetUUID")


def test_an_old_driver_tells_its_memory_without_what_it_reserves():
    found = facts(fail={"nvmlDeviceGetMemoryInfo_v2": "FunctionNotFound"})
    assert (found.memory_used_bytes, found.memory_reserved_bytes) == (100_000_000_000, None)
    assert found.unobservable == {}


def test_a_gpu_off_the_bus_is_lost_and_tells_nothing():
    found = facts(fail={"nvmlDeviceGetTemperature": "GpuIsLost"})
    assert (found.state, found.unobservable) == ("lost", {"device": "lost"})
    assert found.memory_used_bytes is None


def test_a_gpu_that_does_not_even_tell_its_memory_has_failed():
    assert facts(fail={"*": "Unknown"}).state == "failed"


def test_under_mig_what_is_missing_is_missing_because_of_mig():
    found = facts(mig=True, fail={"nvmlDeviceGetUtilizationRates": "NotSupported"})
    assert (found.state, found.mig) == ("present", True)
    assert found.unobservable == {"utilization": "mig"}


def test_under_mig_a_gpu_without_a_memory_of_its_own_is_present_all_the_same():
    found = facts(mig=True, fail={"nvmlDeviceGetMemoryInfo_v2": "NotSupported"})
    assert (found.state, found.unobservable) == ("present", {"memory": "mig"})


def test_the_names_of_clock_events_are_nvmls_own():
    assert all(hasattr(pynvml, constant) for constant in CLOCK_EVENTS.values())


def counters(**properties):
    return PcieCounters(gpu(**properties), "GPU-a")


def test_the_byte_counters_are_fields_197_and_198():
    assert (pynvml.NVML_FI_DEV_PCIE_COUNT_TX_BYTES, pynvml.NVML_FI_DEV_PCIE_COUNT_RX_BYTES) == (197, 198)
    before_ns, after_ns, (tx, rx) = counters(rx_rate=1).read(BOTH)
    assert tx > rx
    assert before_ns <= after_ns


def test_each_direction_can_be_read_by_itself():
    found = counters(rx_rate=0, rx_moved=77)
    assert found.read(RX)[2] == (77,)
    assert found.read(TX)[2][0] > 77
    assert found.read(BOTH)[2][RX] == 77


def test_the_wrap_time_follows_the_links_best_not_its_present_state():
    assert counters().wrap_ns == 67_108_864
    assert counters(fail={"nvmlDeviceGetMaxPcieLinkWidth": "NotSupported"}).wrap_ns < 67_108_864


@pytest.mark.parametrize(
    ("properties", "reason"),
    [
        ({"mig": True}, "mig"),
        ({"c2c": True}, "nvlink_c2c"),
        ({"field_error": pynvml.NVML_ERROR_NOT_SUPPORTED}, "not_supported"),
        ({"field_error": pynvml.NVML_ERROR_GPU_IS_LOST}, "lost"),
        ({"fail": {"nvmlDeviceGetFieldValues": "NoPermission"}}, "no_permission"),
    ],
)
def test_where_the_counters_say_nothing_the_reason_is_given(properties, reason):
    with pytest.raises(NotObservableError) as caught:
        counters(**properties)
    assert caught.value.reason == reason


def test_a_driver_that_knows_neither_mig_nor_c2c_is_read_all_the_same():
    unknown = {"nvmlDeviceGetMigMode": "NotSupported", "nvmlDeviceGetC2cModeInfoV": "FunctionNotFound"}
    assert counters(fail=unknown).read(BOTH)
