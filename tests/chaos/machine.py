"""The machine that a figure was measured on, without its name."""

from __future__ import annotations

import os
import platform
from pathlib import Path


def machine() -> str:
    models = [line.split(":", 1)[1] for line in Path("/proc/cpuinfo").read_text().splitlines() if "model name" in line]
    model = models[0].strip() if models else platform.machine()
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / (1 << 30)
    return f"{len(os.sched_getaffinity(0))} cores of {model}, {memory:.0f} GiB RAM, Python {platform.python_version()}"
