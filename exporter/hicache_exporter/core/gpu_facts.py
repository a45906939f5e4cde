"""What the probe knows of one GPU at one moment. None: not known; ``unobservable`` then says why."""

from __future__ import annotations

from typing import Literal

import msgspec

ProbeState = Literal[
    "ok", "starting", "no_library", "no_driver", "driver_mismatch", "no_gpu", "no_permission", "failed", "hung", "stale"
]
PROBE_STATES: tuple[ProbeState, ...] = (
    "ok",
    "starting",
    "no_library",  # the Python package nvidia-ml-py is not installed
    "no_driver",  # NVIDIA's libnvidia-ml.so.1 or its kernel driver is missing
    "driver_mismatch",  # library and kernel driver are of different versions
    "no_gpu",
    "no_permission",
    "failed",  # another error of NVML, or the probe process ends again and again
    "hung",  # a driver call does not return
    "stale",  # the probe runs but has not reported in time
)
DeviceState = Literal["present", "lost", "unlisted", "failed", "hung"]


class GpuProcess(msgspec.Struct, frozen=True):
    """A compute process, by the pid that the driver knows (of the host's pid namespace)."""

    pid: int
    used_bytes: int | None


class GpuFacts(msgspec.Struct, kw_only=True, omit_defaults=True):
    """Bytes, watts, joules, degrees Celsius, ratios from 0 to 1. ``uuid`` is the identity; ``index`` may shift."""

    uuid: str
    state: DeviceState = "present"
    index: int | None = None
    name: str | None = None
    bus_id: str | None = None
    mig: bool | None = None
    memory_total_bytes: int | None = None
    memory_used_bytes: int | None = None
    memory_reserved_bytes: int | None = None
    utilization_ratio: float | None = None
    memory_utilization_ratio: float | None = None
    power_watts: float | None = None
    power_limit_watts: float | None = None
    energy_joules: float | None = None
    temperature_celsius: int | None = None
    clock_events: tuple[str, ...] | None = None
    ecc_corrected: int | None = None
    ecc_uncorrected: int | None = None
    pcie_generation: int | None = None
    pcie_generation_max: int | None = None
    pcie_width: int | None = None
    pcie_width_max: int | None = None
    pcie_replays: int | None = None
    processes: tuple[GpuProcess, ...] | None = None
    unobservable: dict[str, str] = {}


class Snapshot(msgspec.Struct, kw_only=True):
    """What the probe process reports every few seconds, as JSON on the board."""

    state: ProbeState
    taken_ns: int
    detail: str = ""
    driver_version: str | None = None
    devices: tuple[GpuFacts, ...] = ()
