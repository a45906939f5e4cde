"""The ring writer: one writer a process, on the scheduler's thread. No lock, no thread, no socket.

Seams write from the scheduler's thread only; what the engine's storage threads do is recorded when the scheduler
collects their results. So a position is reserved and filled without anyone in between.
"""

from __future__ import annotations

import json
import mmap
import os
import stat
from contextlib import suppress
from time import monotonic_ns, time_ns
from zlib import crc32

from hicache_tracing import records
from hicache_tracing.records import HEADER_SIZE, SLOT_SIZE, Kind

KEEP_DEAD = 8  # rings of dead processes kept as evidence; older ones are removed when a new ring opens


class RecorderError(Exception):
    """The ring cannot be had here; the text says why and what to do."""


class Recorder:
    """An open ring file of this process."""

    def __init__(self, folder: str, capacity: int) -> None:
        """Create the folder (0700) if needed and the ring file (0600), its blocks allocated.

        Raises RecorderError. Blocks are allocated up front because a write to a hole of a full tmpfs kills the
        process with SIGBUS: better no recorder than a dead engine.
        """
        _own_folder(folder)
        _remove_old(folder)
        self.pid = os.getpid()
        created = time_ns()
        self.path = os.path.join(folder, f"{self.pid}-{created}.ring")
        self.capacity = capacity
        size = HEADER_SIZE + capacity * SLOT_SIZE
        self._map = _create(self.path, size)
        self._map[: records.HEADER.size] = records.HEADER.pack(
            records.MAGIC, records.LAYOUT_VERSION, HEADER_SIZE, SLOT_SIZE, capacity, self.pid, monotonic_ns(), created
        )
        self._end = size
        self._next = 0  # slots handed out so far
        self._head = memoryview(self._map)[records.HEAD_OFFSET : records.HEAD_OFFSET + 8].cast("Q")
        self._dropped = memoryview(self._map)[records.DROPPED_OFFSET : records.DROPPED_OFFSET + 8].cast("Q")
        self._texts: dict[bytes, None] = {}

    def write(self, kind: int, rid: bytes, *numbers: int, extra: bytes = b"") -> None:
        """Append one record. ``rid`` as made by ``key``; too long an ``extra`` is dropped and counted."""
        position = self._next
        try:
            data = records.pack(position + 1, kind, monotonic_ns(), rid, numbers, extra)
        except Exception:
            self._dropped[0] += 1
            raise
        size = len(data)
        self._next = position + size // SLOT_SIZE
        start = HEADER_SIZE + (position % self.capacity) * SLOT_SIZE
        stop = start + size
        if stop <= self._end:
            self._map[start:stop] = data
        else:
            fits = self._end - start
            self._map[start : self._end] = data[:fits]
            self._map[HEADER_SIZE : HEADER_SIZE + size - fits] = data[fits:]
        self._head[0] = self._next

    def key(self, rid: str) -> bytes:
        """The request id as a record carries it; the text of a long one is written the first time it is seen."""
        key = records.encode_rid(rid)
        if records.is_long(key) and key not in self._texts:
            if len(self._texts) >= 1024:
                self._texts.clear()
            self._texts[key] = None
            text = rid.encode("utf-8", "replace")[: records.MAX_EXTRA]
            self.write(Kind.TEXT, key, len(text), extra=text)
        return key

    def identify(self, identity: dict[str, object]) -> None:
        """Put the process's identity into the header. Raises ValueError if it is too large."""
        text = json.dumps(identity, separators=(",", ":")).encode()
        head = records.IDENTITY_HEAD.pack(len(text), crc32(text))
        if len(head) + len(text) > records.IDENTITY_ROOM:
            raise ValueError(f"identity of {len(text)} bytes")
        offset = records.IDENTITY_OFFSET
        self._map[offset : offset + len(head) + len(text)] = head + text

    def seam(self, index: int, state: int, fired: bool, faults: int) -> None:
        offset = records.SEAMS_OFFSET + index * records.SEAM.size
        self._map[offset : offset + records.SEAM.size] = records.SEAM.pack(state, fired, 0, faults, 0)

    def close(self) -> None:
        """Mark a clean end. The file stays: the sidecar may not have read it yet."""
        records_end = monotonic_ns().to_bytes(8, "little")
        self._map[records.CLOSED_OFFSET : records.CLOSED_OFFSET + 8] = records_end


def _own_folder(folder: str) -> None:
    try:
        os.makedirs(folder, mode=0o700, exist_ok=True)
        info = os.lstat(folder)
    except OSError as error:
        raise RecorderError(f"{folder}: {error.strerror}; set HICACHE_WITNESS_DIR to a folder of yours") from error
    if not stat.S_ISDIR(info.st_mode) or info.st_uid != os.geteuid():
        raise RecorderError(f"{folder} is not a folder of this user; set HICACHE_WITNESS_DIR to one")
    if info.st_mode & 0o077:
        os.chmod(folder, 0o700)


def _create(path: str, size: int) -> mmap.mmap:
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise RecorderError(f"{path}: {error.strerror}") from error
    try:
        os.posix_fallocate(descriptor, 0, size)
        return mmap.mmap(descriptor, size)
    except OSError as error:
        with suppress(OSError):
            os.unlink(path)
        raise RecorderError(
            f"no room for a ring of {size >> 20} MiB in {os.path.dirname(path)} ({error.strerror}); "
            "set HICACHE_WITNESS_SLOTS lower or HICACHE_WITNESS_DIR elsewhere"
        ) from error
    finally:
        os.close(descriptor)


def _remove_old(folder: str) -> None:
    """Keep the newest rings of dead processes as evidence, remove the rest."""
    dead = []
    with suppress(OSError):
        for name in os.listdir(folder):
            pid, _, created = name.removesuffix(".ring").partition("-")
            if name.endswith(".ring") and pid.isdecimal() and created.isdecimal() and not _alive(int(pid)):
                dead.append((int(created), name))
    for _, name in sorted(dead)[:-KEEP_DEAD]:
        with suppress(OSError):
            os.unlink(os.path.join(folder, name))


def _alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return True
