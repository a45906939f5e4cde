"""What a running process takes: memory, file descriptors, threads, and CPU since the look before."""

from __future__ import annotations

import time

from .benchmark_scripts import processes


class ProcessFigures:
    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._cpu, self._at = processes.cpu_seconds(pid), time.monotonic()

    def look(self) -> dict[str, float]:
        """Raises an OSError once the process is gone."""
        before, since = self._cpu, self._at
        self._cpu, self._at = processes.cpu_seconds(self._pid), time.monotonic()
        return {
            "rss_mib": round(processes.rss_mib(self._pid), 2),
            "private_mib": round(processes.private_mib(self._pid), 2),
            "descriptors": processes.descriptors(self._pid),
            "threads": processes.threads(self._pid),
            "cpu_share": round((self._cpu - before) / max(self._at - since, 1e-9), 4),
        }
