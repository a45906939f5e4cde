"""Opening a flight-recorder file: what is read at all, and why the rest is refused.

A ring folder lies in a place where every user can write. So nothing is followed, nothing foreign is read, and a file
is believed only after its header.
"""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass

from hicache_exporter.core.decoding import MAX_SPAN
from hicache_tracing import records
from hicache_tracing.records import HEADER_SIZE, SLOT_SIZE

MAX_CAPACITY = 1 << 24

REASONS = (
    "symlink",
    "not_a_file",
    "foreign_owner",
    "open_to_others",
    "not_a_ring",
    "wrong_version",
    "truncated",
    "damaged",
    "unreadable",
    "too_many",
)


class RingRefusedError(Exception):
    """A file that is not read. ``reason`` is one of REASONS (a metric label), the text says more."""

    def __init__(self, reason: str, says: str) -> None:
        super().__init__(says)
        self.reason = reason


@dataclass(frozen=True, slots=True)
class RingHeader:
    """The part of the header that never changes."""

    layout: int
    capacity: int
    pid: int
    created_ns: int
    created_wall_ns: int


def open_ring_file(name: str, folder: int, owner: int) -> tuple[int, RingHeader]:
    """(descriptor, header) of file ``name`` in the folder with descriptor ``folder``. Raises RingRefusedError."""
    try:
        descriptor = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=folder)
    except OSError as error:
        if os.path.islink(f"/proc/self/fd/{folder}/{name}"):
            raise RingRefusedError("symlink", f"{name} is a symbolic link") from error
        raise RingRefusedError("unreadable", f"{name}: {error.strerror}") from error
    try:
        size = _check_file(name, os.fstat(descriptor), owner)
        return descriptor, _parse_header(name, os.pread(descriptor, records.HEADER.size, 0), size)
    except BaseException:
        os.close(descriptor)
        raise


def _check_file(name: str, info: os.stat_result, owner: int) -> int:
    if not stat.S_ISREG(info.st_mode):
        raise RingRefusedError("not_a_file", f"{name} is not a regular file")
    if info.st_uid != owner:
        raise RingRefusedError("foreign_owner", f"{name} belongs to uid {info.st_uid}, this sidecar runs as {owner}")
    if info.st_mode & 0o022:
        raise RingRefusedError(
            "open_to_others", f"{name} may be written by others (mode {stat.S_IMODE(info.st_mode):o})"
        )
    return info.st_size


def _parse_header(name: str, header: bytes, size: int) -> RingHeader:
    if len(header) < records.HEADER.size:
        raise RingRefusedError("truncated", f"{name} is shorter than a header")
    magic, version, header_size, slot_size, capacity, pid, created, created_wall = records.HEADER.unpack(header)
    if magic != records.MAGIC:
        raise RingRefusedError("not_a_ring", f"{name} does not start as a flight recorder")
    if version not in records.CHECKSUMS:
        known = " and ".join(map(str, records.CHECKSUMS))
        raise RingRefusedError("wrong_version", f"{name} has layout {version}, this sidecar reads {known}")
    if (header_size, slot_size) != (HEADER_SIZE, SLOT_SIZE) or not MAX_SPAN < capacity <= MAX_CAPACITY:
        raise RingRefusedError("not_a_ring", f"{name} has impossible sizes in its header")
    if size < HEADER_SIZE + capacity * SLOT_SIZE:
        raise RingRefusedError("truncated", f"{name} has {size} bytes, too few for its {capacity} slots")
    return RingHeader(version, capacity, pid, created, created_wall)
