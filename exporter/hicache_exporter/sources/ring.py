"""One flight-recorder ring of one engine process, read while the process writes it.

The file is read with ``pread``, not mapped: a file that shrinks under a mapping kills its reader with SIGBUS, and a
copy has to be made anyhow before anything in it may be believed.
"""

from __future__ import annotations

import json
import os
import struct
from dataclasses import dataclass
from typing import Any
from zlib import crc32

from hicache_exporter.core.decoding import MAX_SPAN, Loss, Row, decode
from hicache_exporter.sources.ring_file import RingRefusedError, open_ring_file
from hicache_tracing import records
from hicache_tracing.records import HEADER_SIZE, SLOT_SIZE, SeamState

READ_SLOTS = 1024  # 128 KiB, a few ms of work: then others get their turn, and it is still in the processor's cache
COUNTERS = struct.Struct("<QQQ")  # head, closed, dropped
assert (records.HEAD_OFFSET, records.CLOSED_OFFSET, records.DROPPED_OFFSET) == (64, 72, 80)


@dataclass(frozen=True, slots=True)
class SeamRow:
    """One patched engine function as its process last reported it."""

    name: str
    state: str
    fired: bool
    faults: int


@dataclass(frozen=True, slots=True)
class RingRead:
    """What one read brought."""

    rows: list[Row]
    extras: dict[int, bytes]
    losses: list[Loss]
    behind: int
    """Slots that are committed and still unread."""
    fill: float
    """Unread share of the ring when this read began."""


class Ring:
    """An open ring file; ``identity`` is {} until the engine process has told who it is."""

    def __init__(self, name: str, folder: int, owner: int) -> None:
        """Open ``name`` in the folder with descriptor ``folder``. Raises RingRefusedError."""
        self._descriptor, self.header = open_ring_file(name, folder, owner)
        self.name = name
        self.identity: dict[str, Any] = {}
        self.head = 0
        self.closed_ns = 0
        self.cursor = 0  # position of the next unread slot; 0 before the first read
        self.skipped = 0  # slots overwritten before this reader first came: nobody's loss
        self._dropped: int | None = None
        self._identity_head = b""
        self._seam_table = b""
        self._seams: list[SeamRow] = []
        try:
            self.refresh()
        except RingRefusedError:
            self.close()
            raise

    def close(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def refresh(self) -> int:
        """Read the header's changing part: head, end mark, identity. Returns how many records the writer dropped
        since the last time. Raises RingRefusedError.
        """
        head, self.closed_ns, dropped = self._counters()
        if head < self.head or head - self.head > 1 << 48:
            raise RingRefusedError("damaged", f"{self.name}: its head went from {self.head} to {head}")
        self.head = head
        identity_head = self._pread(records.IDENTITY_HEAD.size, records.IDENTITY_OFFSET)
        if identity_head != self._identity_head:
            self._read_identity(identity_head)
        before, self._dropped = self._dropped, dropped
        return 0 if before is None else max(dropped - before, 0)

    def read(self, slots: int = READ_SLOTS) -> RingRead:
        """The next records, oldest first, from about ``slots`` slots. Raises RingRefusedError if the file went bad.

        Records are believed by position and checksum only. The head is read again after the copy: what was overwritten
        meanwhile is not believed at all, and what the writer may be at is not called torn.
        """
        losses: list[Loss] = []
        before = self.head
        dropped = self.refresh()
        if dropped:
            losses.append(Loss("writer_dropped", before, self.head, dropped))
        first_read = self.cursor == 0
        self._skip_overwritten(self.head, losses)
        unread = self.head - self.cursor + 1
        if unread <= 0:
            return RingRead([], {}, losses, 0, 0.0)
        count = min(unread, max(slots, MAX_SPAN))
        cursor, data = self.cursor, self._copy(self.cursor, count)
        head = self._counters()[0]
        reached: list[Loss] = []
        self._skip_overwritten(head, reached)
        data = data[(self.cursor - cursor) * SLOT_SIZE :]
        overwritable = head + MAX_SPAN - self.header.capacity + 1
        complete = count == unread
        decoded = decode(data, self.cursor, overwritable=overwritable, complete=complete, layout=self.header.layout)
        self.cursor = decoded.next_seq
        reached += decoded.losses
        if first_read:
            self.skipped += sum(loss.count for loss in reached if loss.reason == "overwritten")
            reached = [loss for loss in reached if loss.reason != "overwritten"]
        losses += reached
        behind = max(head - self.cursor + 1, 0)
        return RingRead(decoded.rows, decoded.extras, losses, behind, min(unread / self.header.capacity, 1.0))

    def seams(self) -> list[SeamRow]:
        """The state of every seam, in the order of the identity's list; the same list again while nothing changed.

        Raises RingRefusedError.
        """
        names = self.identity.get("seams")
        if not isinstance(names, list):
            return self._seams
        names = names[: records.SEAMS_ROOM]
        table = self._pread(len(names) * records.SEAM.size, records.SEAMS_OFFSET)
        if table != self._seam_table:
            self._seam_table = table
            rows = zip(names, records.SEAM.iter_unpack(table), strict=True)
            self._seams = [
                SeamRow(str(name)[:128], _state_name(state), bool(fired), faults)
                for name, (state, fired, _, faults, _) in rows
            ]
        return self._seams

    def _skip_overwritten(self, head: int, losses: list[Loss]) -> None:
        oldest = max(head - self.header.capacity + 1, 1)
        if self.cursor == 0:
            self.skipped = oldest - 1
            self.cursor = oldest
        elif self.cursor < oldest:
            losses.append(Loss("overwritten", self.cursor, oldest - 1, oldest - self.cursor))
            self.cursor = oldest

    def _copy(self, first: int, count: int) -> bytes:
        index = (first - 1) % self.header.capacity
        fits = min(count, self.header.capacity - index)
        data = self._pread(fits * SLOT_SIZE, HEADER_SIZE + index * SLOT_SIZE)
        if fits < count:
            data += self._pread((count - fits) * SLOT_SIZE, HEADER_SIZE)
        return data

    def _counters(self) -> tuple[int, int, int]:
        """(head, closed, dropped): read until two reads agree, since the writer's store may fall between two bytes."""
        seen = b""
        for _ in range(64):
            before, seen = seen, self._pread(COUNTERS.size, records.HEAD_OFFSET)
            if before == seen:
                break
        head, closed, dropped = COUNTERS.unpack(seen)
        return head, closed, dropped

    def _read_identity(self, head: bytes) -> None:
        """Take over a new identity; one that is just being written fails its checksum and is read next time."""
        length, checksum = records.IDENTITY_HEAD.unpack(head)
        if not 0 < length <= records.IDENTITY_ROOM - records.IDENTITY_HEAD.size:
            return
        text = self._pread(length, records.IDENTITY_OFFSET + records.IDENTITY_HEAD.size)
        if crc32(text) != checksum:
            return
        try:
            identity = json.loads(text)
        except (ValueError, RecursionError):
            return
        if isinstance(identity, dict):
            self.identity = identity
            self._identity_head = head

    def _pread(self, size: int, offset: int) -> bytes:
        try:
            data = os.pread(self._descriptor, size, offset)
        except OSError as error:
            raise RingRefusedError("unreadable", f"{self.name}: {error.strerror}") from error
        if len(data) != size:
            raise RingRefusedError("truncated", f"{self.name} has become shorter than its header says")
        return data


def _state_name(state: int) -> str:
    try:
        return SeamState(state).name.lower()
    except ValueError:
        return "unknown"
