"""On which NUMA nodes the memory of a process lies, by asking the kernel about a sample of its pages.

Not from /proc/PID/numa_maps: to print that, the kernel walks every page while it holds the lock of the process's
memory map (about 80 ns a page, measured: 25 s for 1.2 TiB in small pages), and an engine that maps memory meanwhile
stands still. move_pages(2) without target nodes moves nothing and answers for a thousand pages in half a millisecond.
It needs the right to trace the process; the default seccomp profile of some container engines forbids it.
"""

from __future__ import annotations

import ctypes
import os
import platform
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

SAMPLES = 1024
LARGE = 64 << 20
"""Mappings below this size are left out: pools, weights and other bulk are above."""
_MOVE_PAGES = {"x86_64": 279, "aarch64": 239}
_PAGE = os.sysconf("SC_PAGESIZE")

Query = Callable[[int, Sequence[int]], Sequence[int]]
"""(pid, addresses) -> the node of each page, negative where none is there yet. Raises OSError."""


class PagesHiddenError(Exception):
    """The kernel does not tell; ``reason`` is a label value."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


def move_pages(pid: int, addresses: Sequence[int]) -> list[int]:
    """Ask the system call; without target nodes it only answers. Raises OSError."""
    number = _MOVE_PAGES.get(platform.machine())
    if number is None:
        raise OSError(38, "move_pages: not known for this machine")
    libc = ctypes.CDLL(None, use_errno=True)
    count = len(addresses)
    pages = (ctypes.c_void_p * count)(*addresses)
    status = (ctypes.c_int * count)()
    if libc.syscall(number, pid, ctypes.c_ulong(count), pages, None, status, 0) < 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))
    return list(status)


def node_shares(pid: int, root: Path = Path("/"), query: Query = move_pages) -> dict[int, float]:
    """Shares by node of the process's large mappings, from SAMPLES pages spread over them by size.

    Pages not in memory are left out; an empty dict means that none of those asked is. Raises PagesHiddenError.
    May wait while the process changes its memory map: not to be called from a scrape.
    """
    try:
        spans = large_mappings((root / "proc" / str(pid) / "maps").read_text(errors="replace").splitlines())
        addresses = spread(spans, SAMPLES)
        nodes = [node for node in query(pid, addresses) if node >= 0] if addresses else []
    except PermissionError as error:
        raise PagesHiddenError("no_permission") from error
    except FileNotFoundError as error:
        raise PagesHiddenError("gone") from error
    except OSError as error:
        raise PagesHiddenError("not_supported") from error
    return {node: count / len(nodes) for node, count in sorted(Counter(nodes).items())}


def large_mappings(lines: Iterable[str]) -> list[tuple[int, int]]:
    """(start, end) of the mappings of /proc/PID/maps that may hold bulk memory; device mappings are left out."""
    spans = []
    for line in lines:
        fields = line.split(maxsplit=5)
        path = fields[5] if len(fields) > 5 else ""
        start, end = (int(edge, 16) for edge in fields[0].split("-"))
        device = path.startswith("/dev/") and not path.startswith(("/dev/shm/", "/dev/zero"))
        if end - start >= LARGE and fields[1].startswith("r") and not device:
            spans.append((start, end))
    return spans


def spread(spans: Sequence[tuple[int, int]], samples: int) -> list[int]:
    """Page addresses at equal distances over all spans."""
    total = sum(end - start for start, end in spans)
    addresses, passed = [], 0
    step = max(_PAGE, total // samples)
    offset = step // 2
    for start, end in spans:
        while offset < passed + end - start:
            addresses.append((start + offset - passed) // _PAGE * _PAGE)
            offset += step
        passed += end - start
    return addresses
