"""The machine's memory and a process's share of it, from /proc and /sys under an injected root."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from hicache_exporter.core.proc_text import HOST_MEMORY, PROCESS_MEMORY, Pressure, amounts, pressure
from hicache_exporter.sources.small_file import read_text


class Room(NamedTuple):
    size: int
    free: int


class Host:
    """Reads cost microseconds and never touch the memory map of another process (its lock can be held for seconds).

    Every method returns what there is; an empty answer means that this kernel or container does not show it.
    """

    def __init__(self, root: Path = Path("/"), statvfs: Callable[[Path], os.statvfs_result] = os.statvfs) -> None:
        self.root = root
        self._statvfs = statvfs

    def memory(self) -> dict[str, int]:
        """Bytes by the names in proc_text.HOST_MEMORY."""
        return amounts(self._text("proc/meminfo"), HOST_MEMORY)

    def pressure(self) -> dict[str, Pressure]:
        """PSI of memory; empty where the kernel has none."""
        return pressure(self._text("proc/pressure/memory"))

    def process(self, pid: int) -> dict[str, int]:
        """Bytes by the names in proc_text.PROCESS_MEMORY; empty: no such process."""
        return amounts(self._text(f"proc/{pid}/status"), PROCESS_MEMORY)

    def shared_memory(self) -> Room | None:
        """/dev/shm: where recorder rings live, and shared host pools."""
        try:
            found = self._statvfs(self.root / "dev/shm")
        except OSError:
            return None
        return Room(found.f_blocks * found.f_frsize, found.f_bavail * found.f_frsize)

    def numa_node(self, bus_id: str) -> int | None:
        """The NUMA node that a PCI device sits on, by NVML's bus id; None: unknown, or the machine has only one."""
        domain, _, rest = bus_id.lower().partition(":")
        text = self._text(f"sys/bus/pci/devices/{domain[-4:]}:{rest}/numa_node").strip()
        return int(text) if text.isdecimal() else None

    def _text(self, path: str) -> str:
        try:
            return read_text(os.path.join(self.root, path))
        except OSError:
            return ""
