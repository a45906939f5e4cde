# ruff: noqa: N802  the names are NVML's
"""NVML without a GPU: the functions the probe calls, on devices made of plain data, failing where they are told to.

Constants and error classes are the real ones of pynvml. ``world`` is a dict, or a JSON file that is read again
whenever it changes, so that a test can break a device under a running probe process::

    {"init": "hang" | "DriverNotLoaded" | absent,
     "gpus": [{"uuid": "GPU-a", "listed": true, "rx_rate": bytes a second, "rx_moved": bytes beside those,
               "fail": {function name or "*": error name or "hang"}, "mig": false, "c2c": false, "lanes": 16}]}
"""

from __future__ import annotations

import json
import time
from pathlib import Path
from types import SimpleNamespace

import pynvml

ENDLESS = 3600
TX_RATE = 300_000


class FakeNvml:
    def __init__(self, world, clock=time.monotonic, call_seconds=()):
        """``call_seconds``: processor time that reading so many fields in one call takes, by their number."""
        self._source = world
        self._read_at = None
        self._clock, self._call_seconds = clock, dict(call_seconds)
        self.nvmlLib = SimpleNamespace(nvmlDeviceGetFieldValues=self._fill_field_values)
        self._world = world if isinstance(world, dict) else {}

    def __getattr__(self, name):
        if name.startswith("nvml") and callable(getattr(pynvml, name)):
            raise AttributeError(f"the fake has no {name}")
        return getattr(pynvml, name)

    @property
    def world(self):
        if isinstance(self._source, Path):
            stamp = self._source.stat().st_mtime_ns
            if stamp != self._read_at:
                self._read_at, self._world = stamp, json.loads(self._source.read_text())
        return self._world

    def _fail(self, how):
        if how == "hang":
            time.sleep(ENDLESS)
        if how:
            raise getattr(pynvml, f"NVMLError_{how}")

    def _gpus(self):
        return [gpu for gpu in self.world.get("gpus", []) if gpu.get("listed", True)]

    def _gpu(self, uuid, function):
        gpu = next((gpu for gpu in self.world["gpus"] if gpu["uuid"] == uuid), None)
        if gpu is None:
            raise pynvml.NVMLError_GpuIsLost
        failures = gpu.get("fail", {})
        self._fail(failures.get(function) or failures.get("*"))
        return gpu

    def nvmlInit(self):
        self._fail(self.world.get("init"))

    def nvmlShutdown(self):
        pass

    def nvmlSystemGetDriverVersion(self):
        return "580.159"

    def nvmlDeviceGetCount(self):
        return len(self._gpus())

    def nvmlDeviceGetHandleByIndex(self, index):
        uuid = self._gpus()[index]["uuid"]
        self._gpu(uuid, "nvmlDeviceGetHandleByIndex")
        return uuid

    def nvmlDeviceGetUUID(self, handle):
        return self._gpu(handle, "nvmlDeviceGetUUID")["uuid"]

    def nvmlDeviceGetName(self, handle):
        self._gpu(handle, "nvmlDeviceGetName")
        return "NVIDIA H200"

    def nvmlDeviceGetPciInfo(self, handle):
        self._gpu(handle, "nvmlDeviceGetPciInfo")
        return SimpleNamespace(busId=b"00000000:18:00.0")

    def nvmlDeviceGetMigMode(self, handle):
        return [int(self._gpu(handle, "nvmlDeviceGetMigMode").get("mig", False))] * 2

    def nvmlDeviceGetC2cModeInfoV(self, handle):
        return SimpleNamespace(isC2cEnabled=int(self._gpu(handle, "nvmlDeviceGetC2cModeInfoV").get("c2c", False)))

    def nvmlDeviceGetMemoryInfo(self, handle, version=None):
        self._gpu(handle, "nvmlDeviceGetMemoryInfo_v2" if version else "nvmlDeviceGetMemoryInfo")
        memory = {"total": 150_754_820_096, "free": 50_000_000_000, "used": 100_000_000_000}
        if version:
            memory["reserved"] = 754_820_096
        return SimpleNamespace(**memory)

    def nvmlDeviceGetUtilizationRates(self, handle):
        self._gpu(handle, "nvmlDeviceGetUtilizationRates")
        return SimpleNamespace(gpu=87, memory=41)

    def nvmlDeviceGetPowerUsage(self, handle):
        self._gpu(handle, "nvmlDeviceGetPowerUsage")
        return 412_345

    def nvmlDeviceGetEnforcedPowerLimit(self, handle):
        self._gpu(handle, "nvmlDeviceGetEnforcedPowerLimit")
        return 700_000

    def nvmlDeviceGetTotalEnergyConsumption(self, handle):
        self._gpu(handle, "nvmlDeviceGetTotalEnergyConsumption")
        return 123_456_789

    def nvmlDeviceGetTemperature(self, handle, sensor):
        assert sensor == pynvml.NVML_TEMPERATURE_GPU
        self._gpu(handle, "nvmlDeviceGetTemperature")
        return 54

    def nvmlDeviceGetCurrentClocksEventReasons(self, handle):
        self._gpu(handle, "nvmlDeviceGetCurrentClocksEventReasons")
        return pynvml.nvmlClocksEventReasonSwPowerCap | pynvml.nvmlClocksEventReasonHwThermalSlowdown

    def nvmlDeviceGetTotalEccErrors(self, handle, kind, counter):
        assert counter == pynvml.NVML_VOLATILE_ECC
        self._gpu(handle, "nvmlDeviceGetTotalEccErrors")
        return 3 if kind == pynvml.NVML_MEMORY_ERROR_TYPE_CORRECTED else 0

    def nvmlDeviceGetCurrPcieLinkGeneration(self, handle):
        self._gpu(handle, "nvmlDeviceGetCurrPcieLinkGeneration")
        return 4

    def nvmlDeviceGetMaxPcieLinkGeneration(self, handle):
        self._gpu(handle, "nvmlDeviceGetMaxPcieLinkGeneration")
        return 5

    def nvmlDeviceGetCurrPcieLinkWidth(self, handle):
        self._gpu(handle, "nvmlDeviceGetCurrPcieLinkWidth")
        return 8

    def nvmlDeviceGetMaxPcieLinkWidth(self, handle):
        return self._gpu(handle, "nvmlDeviceGetMaxPcieLinkWidth").get("lanes", 16)

    def nvmlDeviceGetPcieReplayCounter(self, handle):
        self._gpu(handle, "nvmlDeviceGetPcieReplayCounter")
        return 2

    def nvmlDeviceGetComputeRunningProcesses(self, handle):
        self._gpu(handle, "nvmlDeviceGetComputeRunningProcesses")
        return [SimpleNamespace(pid=4242, usedGpuMemory=99_000_000_000), SimpleNamespace(pid=7, usedGpuMemory=None)]

    def nvmlDeviceGetFieldValues(self, handle, fields):
        gpu = self._gpu(handle, "nvmlDeviceGetFieldValues")
        failure = gpu.get("field_error", 0)
        rates = {pynvml.NVML_FI_DEV_PCIE_COUNT_TX_BYTES: TX_RATE, pynvml.NVML_FI_DEV_PCIE_COUNT_RX_BYTES: 10_000}
        if "rx_rate" in gpu:
            rates[pynvml.NVML_FI_DEV_PCIE_COUNT_RX_BYTES] = gpu["rx_rate"]
        if gpu.get("still"):
            rates = dict.fromkeys(rates, 0)
        moved = {pynvml.NVML_FI_DEV_PCIE_COUNT_RX_BYTES: gpu.get("rx_moved", 0)}
        now = self._clock()
        totals = (int(rates[field] * now) + moved.get(field, 0) for field in fields)
        return [SimpleNamespace(nvmlReturn=failure, value=SimpleNamespace(uiVal=total % (1 << 32))) for total in totals]

    def _fill_field_values(self, handle, count, pointer):
        """The same as the driver's library has it: fields and values in an array of structures, a code returned."""
        until = time.perf_counter() + self._call_seconds.get(count.value, 0.0)
        array = pointer._obj
        try:
            found = self.nvmlDeviceGetFieldValues(handle, [entry.fieldId for entry in array])
        except pynvml.NVMLError as error:
            return error.value
        for entry, value in zip(array, found, strict=True):
            entry.nvmlReturn, entry.value.uiVal = value.nvmlReturn, value.value.uiVal
        self._spend(until)
        return pynvml.NVML_SUCCESS

    @staticmethod
    def _spend(until):
        """Burn processor time, as the real call does."""
        while time.perf_counter() < until:
            pass
