"""What a process uses, from its clock and /proc. Of a process that is gone, all of these raise an OSError."""

from __future__ import annotations

import os
import time
from contextlib import suppress
from pathlib import Path

MIB = 1 << 20
_WHOLE_PROCESS = 2
"""CPUCLOCK_SCHED: time on a CPU, in nanoseconds, of all threads."""


def rss_mib(pid: int | str = "self") -> float:
    return _status_mib(pid, "VmRSS")


def private_mib(pid: int | str = "self") -> float:
    """Resident memory that is no file's: neither code nor a mapped ring."""
    return _status_mib(pid, "RssAnon")


def cpu_seconds(pid: int) -> float:
    """Of all its threads, those that have ended included: /proc/PID/task knows only living ones."""
    return time.clock_gettime((~pid << 3) | _WHOLE_PROCESS)  # as clock_getcpuclockid(3) makes it


def descriptors(pid: int | str = "self") -> int:
    """Open file descriptors; of one's own, without the one that this look takes."""
    return len(os.listdir(f"/proc/{pid}/fd")) - (pid == "self")


def threads(pid: int | str = "self") -> int:
    return len(os.listdir(f"/proc/{pid}/task"))


def children(pid: int) -> list[int]:
    """Direct children of a process."""
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            if int(stat.read_text().rpartition(")")[2].split()[1]) == pid:
                found.append(int(stat.parent.name))
    return found


def _status_mib(pid: int | str, name: str) -> float:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    kib = next((line.split()[1] for line in lines if line.startswith(f"{name}:")), None)
    if kib is None:
        raise ProcessLookupError(f"process {pid} has ended: no {name} in its status")
    return int(kib) * 1024 / MIB
