"""The GPU's own cumulative PCIe byte counters: NVML fields 197 (sent) and 198 (received), 32 bits wide.

One call reads both, in about 0.3 ms. They count all that crosses the link, protocol included: a large copy shows as
1.078 times its payload. NVML's "throughput" call is no alternative: it samples one direction for 20 ms.
"""

from __future__ import annotations

from time import monotonic_ns
from typing import Any

from hicache_exporter.core.pcie_link import wrap_ns
from hicache_exporter.sources.nvml import reason_of


class NotObservableError(Exception):
    """The counters say nothing about host traffic here; ``reason`` is a label value."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


Reading = tuple[int, int, int, int]
"""(before, after, tx, rx): read somewhere between two moments (CLOCK_MONOTONIC)"""


class PcieCounters:
    """The counters of one GPU. Construction and reading raise NotObservableError at any failure of theirs."""

    def __init__(self, nvml: Any, handle: Any) -> None:
        self._nvml, self._handle = nvml, handle
        self._fields = [nvml.NVML_FI_DEV_PCIE_COUNT_TX_BYTES, nvml.NVML_FI_DEV_PCIE_COUNT_RX_BYTES]
        if _mig(nvml, handle):
            raise NotObservableError("mig")
        if _linked_to_cpu(nvml, handle):
            raise NotObservableError("nvlink_c2c")
        self.wrap_ns = wrap_ns(*_fastest_link(nvml, handle))
        self.read()

    def read(self) -> Reading:
        before_ns = monotonic_ns()
        try:
            tx, rx = self._nvml.nvmlDeviceGetFieldValues(self._handle, self._fields)
        except self._nvml.NVMLError as error:
            raise NotObservableError(reason_of(error)) from error
        after_ns = monotonic_ns()
        failure = tx.nvmlReturn or rx.nvmlReturn
        if failure:
            raise NotObservableError(reason_of(self._nvml.NVMLError(failure)))
        return before_ns, after_ns, tx.value.uiVal, rx.value.uiVal


def _mig(nvml: Any, handle: Any) -> bool:
    try:
        return bool(nvml.nvmlDeviceGetMigMode(handle)[0] == nvml.NVML_DEVICE_MIG_ENABLE)
    except nvml.NVMLError:
        return False


def _linked_to_cpu(nvml: Any, handle: Any) -> bool:
    """True where host traffic takes NVLink-C2C (Grace) and the PCIe counters would not see it."""
    try:
        return bool(nvml.nvmlDeviceGetC2cModeInfoV(handle).isC2cEnabled)
    except nvml.NVMLError:
        return False


def _fastest_link(nvml: Any, handle: Any) -> tuple[int | None, int | None]:
    try:
        return nvml.nvmlDeviceGetMaxPcieLinkGeneration(handle), nvml.nvmlDeviceGetMaxPcieLinkWidth(handle)
    except nvml.NVMLError:
        return None, None
