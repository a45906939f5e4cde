"""Whether any engine on this machine is doing something: the heads of its flight recorders, a memory read each."""

from __future__ import annotations

import mmap
import struct
from pathlib import Path

from hicache_tracing.records import HEAD_OFFSET, MAGIC

_HEAD = struct.Struct("<Q")
RESCAN_NS = 5_000_000_000


class RingHeads:
    """Maps the first page of every ring in the folder. A ring that can't be read is left out."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._pages: dict[Path, mmap.mmap] = {}
        self._rescan_at_ns = 0

    def total(self, now_ns: int) -> int:
        """Slots committed in all rings: it changes when an engine records something, or a ring comes or goes."""
        if now_ns >= self._rescan_at_ns:
            self._rescan_at_ns = now_ns + RESCAN_NS
            self._rescan()
        total = 0
        for page in self._pages.values():
            total += _HEAD.unpack_from(page, HEAD_OFFSET)[0]
        return total

    def _rescan(self) -> None:
        found = set(self._folder.glob("*.ring"))
        for path in self._pages.keys() - found:
            self._pages.pop(path).close()
        for path in found - self._pages.keys():
            page = _map(path)
            if page is not None:
                self._pages[path] = page


def _map(path: Path) -> mmap.mmap | None:
    try:
        with path.open("rb") as file:
            page = mmap.mmap(file.fileno(), mmap.PAGESIZE, access=mmap.ACCESS_READ)
    except (OSError, ValueError):
        return None
    if page[: len(MAGIC)] == MAGIC:
        return page
    page.close()
    return None
