"""Folders for one engine's run. Those of processes that died before they could remove theirs go when one is made."""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path

PREFIX = "hicache-demo"
SHARED_MEMORY = Path("/dev/shm")
"""Where rings belong: in memory, but not in the engine's."""


def make_scratch() -> Path:
    root = SHARED_MEMORY if os.access(SHARED_MEMORY, os.W_OK) else Path(tempfile.gettempdir())
    for folder in root.glob(f"{PREFIX}-*-*"):
        owner = folder.name.split("-")[2]
        if owner.isdigit() and not Path("/proc", owner).exists():
            shutil.rmtree(folder, ignore_errors=True)
    return Path(tempfile.mkdtemp(prefix=f"{PREFIX}-{os.getpid()}-", dir=root))
