"""Text of /proc and of cgroup files as numbers. A line that is not there is a key that is not there."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

KIB = 1024
_UNLIMITED_V1 = 1 << 62  # cgroup v1 says "no limit" as the largest page-aligned number

HOST_MEMORY = {
    "total": "MemTotal",
    "available": "MemAvailable",
    "free": "MemFree",
    "shared": "Shmem",
    "locked": "Mlocked",
    "unevictable": "Unevictable",
    "swap_total": "SwapTotal",
    "swap_free": "SwapFree",
}
PROCESS_MEMORY = {
    "resident": "VmRSS",
    "resident_shared": "RssShmem",
    "locked": "VmLck",
    "pinned": "VmPin",
    "swapped": "VmSwap",
}


def amounts(text: str, names: Mapping[str, str]) -> dict[str, int]:
    """``Name:   123 kB`` lines as bytes, under our names (``/proc/meminfo``, ``/proc/PID/status``)."""
    text = f"\n{text}\n"
    found = {}
    for ours, theirs in names.items():
        before = f"\n{theirs}:"
        at = text.find(before)
        if at >= 0:
            number, _, unit = text[at + len(before) : text.index("\n", at + 1)].strip().partition(" ")
            if unit == "kB" and number.isdecimal():
                found[ours] = int(number) * KIB
    return found


class Pressure(NamedTuple):
    """One line of a PSI file: shares of the last 10, 60 and 300 s, and seconds since boot."""

    shares: dict[str, float]
    seconds: float


def pressure(text: str) -> dict[str, Pressure]:
    """``some`` (at least one task waited for memory) and ``full`` (all did)."""
    found = {}
    for line in text.splitlines():
        kind, *pairs = line.split()
        values = dict(pair.split("=", 1) for pair in pairs)
        shares = {f"{span}s": float(values[f"avg{span}"]) / 100 for span in (10, 60, 300)}
        found[kind] = Pressure(shares, int(values["total"]) / 1e6)
    return found


class CgroupPaths(NamedTuple):
    """Where a process sits in the hierarchies that can account memory; None: in none of that kind."""

    v2: str | None
    v1: str | None


def cgroup_paths(text: str) -> CgroupPaths:
    """``/proc/PID/cgroup``."""
    v2 = v1 = None
    for line in text.splitlines():
        hierarchy, controllers, path = line.split(":", 2)
        if hierarchy == "0" and not controllers:
            v2 = path
        elif "memory" in controllers.split(","):
            v1 = path
    return CgroupPaths(v2, v1)


def limit(text: str) -> int | None:
    """A cgroup limit in bytes; None: there is no limit."""
    value = text.strip()
    if not value.isdecimal() or int(value) >= _UNLIMITED_V1:
        return None
    return int(value)


def statistic(text: str, name: str) -> int | None:
    """One number of ``memory.stat``."""
    for line in text.splitlines():
        key, _, value = line.partition(" ")
        if key == name and value.isdecimal():
            return int(value)
    return None
