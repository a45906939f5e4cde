"""What a running process takes, from /proc: memory, file descriptors, threads, and CPU since the look before."""

from __future__ import annotations

import os
import time
from pathlib import Path

MIB = 1 << 20
TICKS = os.sysconf("SC_CLK_TCK")


class ProcessFigures:
    def __init__(self, pid: int) -> None:
        self._folder = Path("/proc") / str(pid)
        self._cpu, self._at = self._cpu_seconds(), time.monotonic()

    def look(self) -> dict[str, float]:
        """Raises FileNotFoundError or ProcessLookupError once the process is gone."""
        status = dict(line.split(":", 1) for line in (self._folder / "status").read_text().splitlines())
        kib = {name: int(status[name].split()[0]) for name in ("VmRSS", "RssAnon")}
        before, since, self._cpu, self._at = self._cpu, self._at, self._cpu_seconds(), time.monotonic()
        return {
            "rss_mib": round(kib["VmRSS"] * 1024 / MIB, 2),
            "private_mib": round(kib["RssAnon"] * 1024 / MIB, 2),
            "descriptors": len(list((self._folder / "fd").iterdir())),
            "threads": int(status["Threads"]),
            "cpu_share": round((self._cpu - before) / max(self._at - since, 1e-9), 4),
        }

    def _cpu_seconds(self) -> float:
        # "pid (name) state ...": the name may hold anything, a bracket too
        fields = (self._folder / "stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / TICKS
