"""Whether the process that wrote a ring still lives: by pid and start time, since pids are used again."""

from __future__ import annotations

import os
import time
from pathlib import Path

from hicache_exporter.sources.small_file import read_text

TOLERANCE_NS = 50_000_000  # start times come in clock ticks of 10 ms
_TICK_NS = 1_000_000_000 // os.sysconf("SC_CLK_TCK")


def is_alive(pid: int, not_after_ns: int, proc: Path = Path("/proc")) -> bool:
    """True if process ``pid`` exists, is no zombie and started before ``not_after_ns`` (CLOCK_MONOTONIC)."""
    try:
        text = read_text(os.path.join(proc, str(pid), "stat"))
    except OSError:
        return False
    fields = text.rpartition(")")[2].split()
    if len(fields) < 20 or fields[0] in ("Z", "X"):
        return False
    started_ns = int(fields[19]) * _TICK_NS - _suspended_ns()
    return started_ns <= not_after_ns + TOLERANCE_NS


def _suspended_ns() -> int:
    """Start times count the machine's sleep, CLOCK_MONOTONIC does not."""
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME) - time.clock_gettime_ns(time.CLOCK_MONOTONIC)
