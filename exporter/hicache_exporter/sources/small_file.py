"""Files of the kernel's making: /proc, /sys, cgroups. A scrape reads forty; with pathlib that costs twice as much."""

from __future__ import annotations

import os
from pathlib import Path

PIECE = 16_384


def read_text(path: Path | str) -> str:
    """All of it; bytes that are no UTF-8 are replaced. Raises OSError."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        content = piece = os.read(descriptor, PIECE)
        while piece:  # the kernel may hand out less than there is
            piece = os.read(descriptor, PIECE)
            content += piece
    finally:
        os.close(descriptor)
    return content.decode(errors="replace")
