"""The ring writer: one writer a process, on the scheduler's thread. No thread, no socket, and it never waits.

Seams write from the scheduler's thread; what the engine's storage threads do is recorded when the scheduler collects
their results. Should anyone else come in between (another thread, a signal handler in the middle of a write), that
record is dropped and counted: two records in one place would be a loss that nobody sees.
"""

from __future__ import annotations

import json
import mmap
import os
from collections.abc import Callable
from time import monotonic_ns, time_ns
from zlib import adler32, crc32

from hicache_tracing import records
from hicache_tracing.records import HEADER_SIZE, SEEDS, SLOT_SIZE, Kind
from hicache_tracing.ring_file import create, own_folder, remove_old


class Recorder:
    """An open ring file of this process."""

    def __init__(self, folder: str, capacity: int) -> None:
        """Create the folder (0700) if needed and the ring file (0600), its blocks allocated.

        Raises RecorderError. Blocks are allocated up front because a write to a hole of a full tmpfs kills the
        process with SIGBUS: better no recorder than a dead engine.
        """
        own_folder(folder)
        remove_old(folder)
        self.pid = os.getpid()
        created, started = time_ns(), monotonic_ns()  # one moment on two clocks: nothing may come in between
        self.path = os.path.join(folder, f"{self.pid}-{created}.ring")
        self.capacity = capacity
        size = HEADER_SIZE + capacity * SLOT_SIZE
        self._map = create(self.path, size)
        self._map[: records.HEADER.size] = records.HEADER.pack(
            records.MAGIC, records.LAYOUT_VERSION, HEADER_SIZE, SLOT_SIZE, capacity, self.pid, started, created
        )
        self._head = memoryview(self._map)[records.HEAD_OFFSET : records.HEAD_OFFSET + 8].cast("Q")
        dropped = memoryview(self._map)[records.DROPPED_OFFSET : records.DROPPED_OFFSET + 8].cast("Q")
        self.write: Callable[..., None] = _writer(self._map, capacity, self._head, dropped)
        self._texts: dict[bytes, None] = {}

    @property
    def head(self) -> int:
        """Slots committed."""
        return self._head[0]

    def key(self, rid: str) -> bytes:
        """The request id as a record carries it; the text of a long one is written when it is first seen."""
        key = records.encode_rid(rid)
        if records.is_long(key) and key not in self._texts:
            if len(self._texts) >= 1024:
                self._texts.clear()
            self._texts[key] = None
            text = rid.encode("utf-8", "replace")
            self.write(Kind.TEXT, key, len(text), extra=text[: records.MAX_TEXT])
        return key

    def identify(self, identity: dict[str, object]) -> None:
        """Put the process's identity into the header. Raises ValueError if it is too large."""
        text = json.dumps(identity, separators=(",", ":"), default=str).encode()
        head = records.IDENTITY_HEAD.pack(len(text), crc32(text))
        if len(head) + len(text) > records.IDENTITY_ROOM:
            raise ValueError(f"identity of {len(text)} bytes")
        offset = records.IDENTITY_OFFSET
        self._map[offset : offset + len(head) + len(text)] = head + text

    def seam(self, index: int, state: int, fired: bool, faults: int) -> None:
        """Put a seam's state into the header's table, at its place in the identity's list of seams."""
        if index >= records.SEAMS_ROOM:
            raise IndexError(f"seam {index} of {records.SEAMS_ROOM}")
        offset = records.SEAMS_OFFSET + index * records.SEAM.size
        self._map[offset : offset + records.SEAM.size] = records.SEAM.pack(state, fired, 0, faults, 0)

    def close(self) -> None:
        """Mark a clean end. The file stays: the sidecar may not have read it yet."""
        records_end = monotonic_ns().to_bytes(8, "little")
        self._map[records.CLOSED_OFFSET : records.CLOSED_OFFSET + 8] = records_end


def _writer(ring: mmap.mmap, capacity: int, head: memoryview[int], dropped: memoryview[int]) -> Callable[..., None]:
    """The recorder's ``write``. A closure: an attribute that it had to look up would be paid for at every record; and
    the numbers are parameters of their own, as a tuple of them would be made and taken apart again.
    """
    pack_body, pack_prefix = records.BODY.pack, records.PREFIX.pack
    end = HEADER_SIZE + capacity * SLOT_SIZE
    position = 0  # slots handed out so far
    start = HEADER_SIZE  # where the next one lies
    busy = False  # tested and set without a call in between: no thread switches there and no signal handler runs

    def write(
        kind: int,
        rid: bytes,
        n1: int = 0, n2: int = 0, n3: int = 0, n4: int = 0, n5: int = 0, n6: int = 0, n7: int = 0, n8: int = 0,
        *, extra: bytes = b"",
    ) -> None:  # fmt: skip
        """Append one record. ``rid`` as made by ``key``.

        Raises what packing raises (too long an ``extra``, a number that is none); such a record counts as dropped.
        """
        nonlocal position, start, busy
        if busy:
            dropped[0] += 1
            return
        busy = True
        try:
            span = 1 - -len(extra) // SLOT_SIZE if extra else 1
            rest = pack_body(kind, span, monotonic_ns(), rid, n1, n2, n3, n4, n5, n6, n7, n8)
            if extra:
                rest += records.padded(extra)
            seq = position + 1
            data = pack_prefix(seq, adler32(rest, seq % SEEDS)) + rest
            stop = start + len(data)
            if stop < end:
                ring[start:stop] = data
            else:
                ring[start:end] = data[: end - start]
                stop += HEADER_SIZE - end
                ring[HEADER_SIZE:stop] = data[end - start :]
            head[0] = position = position + span
            start = stop  # after all that may fail: what has failed has moved nothing
        except Exception:
            dropped[0] += 1
            raise
        finally:
            busy = False

    return write
