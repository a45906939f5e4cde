"""The GPU's own cumulative PCIe byte counters: NVML fields 197 (sent) and 198 (received), 32 bits wide.

They count all that crosses the link, protocol included: a large copy shows as 1.078 times its payload. Measured on an
H200 with driver 580, 20 ms after the call before: one field takes 0.30 ms of processor time, both in one call 0.48 ms.
NVML's "throughput" call is no alternative: it samples one direction for 20 ms.
"""

from __future__ import annotations

from time import monotonic_ns
from typing import Any

from hicache_exporter.core.pcie_link import wrap_ns
from hicache_exporter.sources.nvml import reason_of
from hicache_exporter.sources.nvml_fields import FieldValues


class NotObservableError(Exception):
    """The counters say nothing about host traffic here; ``reason`` is a label value."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


Reading = tuple[int, int, tuple[int, ...]]
"""(before, after, values): the counters were read somewhere between two moments (CLOCK_MONOTONIC)."""

TX, RX, BOTH = 0, 1, 2
"""What leaves the GPU (device to host), what reaches it (host to device), and both in one call."""


class PcieCounters:
    """The counters of one GPU. Construction and reading raise NotObservableError at any failure of theirs."""

    def __init__(self, nvml: Any, handle: Any) -> None:
        self._error = nvml.NVMLError
        if _mig(nvml, handle):
            raise NotObservableError("mig")
        if _linked_to_cpu(nvml, handle):
            raise NotObservableError("nvlink_c2c")
        self.wrap_ns = wrap_ns(*_fastest_link(nvml, handle))
        tx, rx = nvml.NVML_FI_DEV_PCIE_COUNT_TX_BYTES, nvml.NVML_FI_DEV_PCIE_COUNT_RX_BYTES
        try:
            self._fields = [FieldValues(nvml, handle, fields) for fields in ((tx,), (rx,), (tx, rx))]
        except nvml.NVMLError as error:
            raise NotObservableError(reason_of(error)) from error
        self.read(BOTH)

    def read(self, which: int) -> Reading:
        """TX, RX or BOTH, in this order."""
        before_ns = monotonic_ns()
        try:
            values = self._fields[which].read()
        except self._error as error:
            raise NotObservableError(reason_of(error)) from error
        return before_ns, monotonic_ns(), values


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
