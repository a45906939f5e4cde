"""What a process uses, from /proc."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

MIB = 1 << 20


def rss_mib(pid: int | str = "self") -> float:
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGESIZE") / MIB


def cpu_seconds(pid: int) -> float:
    """Of all its threads."""
    return sum(int((task / "schedstat").read_text().split()[0]) for task in Path(f"/proc/{pid}/task").iterdir()) / 1e9


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
