"""A recorded ring as it grew: what was written when, and what its engine is called."""

from __future__ import annotations

import gzip
import json
import struct
from collections.abc import Iterable
from pathlib import Path
from typing import Any
from zlib import crc32

from hicache_dashboards.session.model import LARGEST, TOO_LARGE
from hicache_exporter.core.decoding import SEQ, SPAN, T_NS
from hicache_exporter.core.identity import parse_identity
from hicache_exporter.core.tally import RingClock
from hicache_exporter.sources.ring_folder import RingFolder
from hicache_tracing.records import HEAD_OFFSET, HEADER, IDENTITY_HEAD, IDENTITY_OFFSET, IDENTITY_ROOM

ALL_SLOTS = 1 << 20


class NoRecordError(ValueError):
    """A ring in which nothing was recorded, such as that of an engine that nobody asked."""


class Tape:
    """A recorded ring, in a folder of ours, whose head follows the clock. ``play`` it once before anybody reads it.

    Raises ValueError or struct.error for what is no ring, NoRecordError for one without a record.
    """

    def __init__(self, recorded: bytes, folder: Path) -> None:
        *_, pid, created_ns, created_wall_ns = HEADER.unpack_from(recorded)
        self.clock = RingClock(created_ns, created_wall_ns)
        self.path = folder / f"{pid}-{created_wall_ns}.ring"
        self.path.touch(mode=0o600)
        with self.path.open("r+b") as file:
            file.write(recorded.rstrip(b"\0"))
            file.truncate(len(recorded))  # what was never written takes no room
        self._heads, self.skipped = _heads(self.path)
        """``skipped``: records that had been overwritten when it was recorded."""
        self.first_ns, self.last_ns = self._heads[0][0], self._heads[-1][0]
        self._next = 0

    def rewind(self) -> None:
        self._next = 0

    def play(self, until_ns: int) -> None:
        """Forwards only."""
        while self._next < len(self._heads) and self._heads[self._next][0] <= until_ns:
            self._next += 1
        head = self._heads[self._next - 1][1] if self._next else 0
        with self.path.open("r+b") as file:
            file.seek(HEAD_OFFSET)
            file.write(struct.pack("<Q", head))


def recorded(path: Path) -> bytes:
    """A ring file, gzipped or not. Raises OSError, zlib.error, EOFError for one that was cut off, or ValueError."""
    if path.suffix != ".gz":
        return path.read_bytes()
    with gzip.open(path) as packed:
        data = packed.read(LARGEST + 1)
    if len(data) > LARGEST:
        raise ValueError(TOO_LARGE)
    return data


def renamed(ring: bytes, names: Iterable[tuple[str, str]]) -> bytes:
    """The same ring with other names in its identity: (old, new), of an address or of any text such as a path."""
    facts = facts_of(ring)
    for old, new in names:
        if address_of(facts) == old:
            host, _, port = new.rpartition(":")
            facts |= {"host": host, "port": int(port)}
        facts = {name: value.replace(old, new) if isinstance(value, str) else value for name, value in facts.items()}
    text = json.dumps(facts).encode()
    whole = IDENTITY_HEAD.pack(len(text), crc32(text)) + text
    return ring[:IDENTITY_OFFSET] + whole.ljust(IDENTITY_ROOM, b"\0") + ring[IDENTITY_OFFSET + IDENTITY_ROOM :]


def facts_of(ring: bytes) -> dict[str, Any]:
    length, _ = IDENTITY_HEAD.unpack_from(ring, IDENTITY_OFFSET)
    begin = IDENTITY_OFFSET + IDENTITY_HEAD.size
    facts: dict[str, Any] = json.loads(ring[begin : begin + length])
    return facts


def address_of(facts: dict[str, Any]) -> str | None:
    identity = parse_identity(facts)
    return identity.address if identity is not None else None


def _heads(path: Path) -> tuple[list[tuple[int, int]], int]:
    """When each record was written, and where the head stood then; and how many there had been before."""
    folder = RingFolder(str(path.parent))
    folder.scan()
    if path.name not in folder.rings:
        raise ValueError(str(folder.refused.get(path.name, "no ring")))
    ring = folder.rings[path.name]
    rows = ring.read(ALL_SLOTS).rows
    skipped = ring.skipped
    for name in list(folder.rings):
        folder.drop(name)
    if not rows:
        raise NoRecordError(f"{path.name} holds no record that was not overwritten")
    heads, at_ns = list[tuple[int, int]](), 0
    for row in rows:
        at_ns = max(at_ns, row[T_NS])  # a record may be stamped before the one in front of it
        heads.append((at_ns, row[SEQ] + row[SPAN] - 1))
    return heads, skipped
