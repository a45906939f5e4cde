"""Whether any engine on this machine is doing something: the heads of its flight recorders, a memory read each."""

from __future__ import annotations

import mmap
import os
import stat
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
    """None also for what somebody else has put there: a pipe would hang us, a file that shrinks would end us."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        info = os.fstat(descriptor)
        if not stat.S_ISREG(info.st_mode) or info.st_uid != os.geteuid():
            return None
        page = mmap.mmap(descriptor, mmap.PAGESIZE, access=mmap.ACCESS_READ)
    except (OSError, ValueError):
        return None
    finally:
        os.close(descriptor)
    if page[: len(MAGIC)] == MAGIC:
        return page
    page.close()
    return None
