"""Reads a whole ring file at once. A second reader, written from the layout's description and not from the sidecar's
code, so that the two cannot share a mistake.
"""

from __future__ import annotations

import json
import struct
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from zlib import adler32, crc32

from hicache_tracing.records import Kind, Record, SeamState, decode_rid


@dataclass
class Ring:
    head: int
    closed: int
    dropped: int
    capacity: int
    pid: int
    created: tuple[int, int]
    """(CLOCK_MONOTONIC, wall) nanoseconds of one moment."""
    identity: dict[str, Any]
    seams: dict[str, tuple[SeamState, bool, int]]
    """name: state, fired, faults"""
    records: list[Record] = field(default_factory=list)
    torn: list[int] = field(default_factory=list)
    """Positions, counted from 1, of committed slots that belong to no complete record."""

    def of(self, kind: Kind) -> list[Record]:
        return [record for record in self.records if record.kind == kind]

    def facts(self, kind: Kind) -> list[dict[str, int]]:
        """The named numbers of every record of a kind."""
        return [record.named() for record in self.of(kind)]


def read(path: str | Path) -> Ring:
    data = Path(path).read_bytes()
    magic, version, header, slot, capacity, pid, *created = struct.unpack_from("<8sIIIIQQQ", data)
    assert (magic, version, header, slot) == (b"HICACHEW", 2, 65536, 128)
    head, closed, dropped = struct.unpack_from("<QQQ", data, 64)
    identity = _identity(data)
    ring = Ring(head, closed, dropped, capacity, pid, (created[0], created[1]), identity, _seams(data, identity))
    position = max(head - capacity + 1, 1)
    while position <= head:
        record, span = _record(data, capacity, position)
        if record is None:
            ring.torn.append(position)
        else:
            ring.records.append(record)
        position += span
    return ring


def _identity(data: bytes) -> dict[str, Any]:
    length, checksum = struct.unpack_from("<II", data, 128)
    text = data[136 : 136 + length]
    if not length or crc32(text) != checksum:
        return {}
    return json.loads(text)


def _seams(data: bytes, identity: dict[str, Any]) -> dict[str, tuple[SeamState, bool, int]]:
    rows = struct.iter_unpack("<BBHIQ", data[32768:65536])
    return {
        name: (SeamState(state), bool(fired), faults)
        for name, (state, fired, _, faults, _) in zip(identity.get("seams", ()), rows, strict=False)
    }


def _record(data: bytes, capacity: int, position: int) -> tuple[Record | None, int]:
    """(the record that starts at a position, its slots), or (None, 1) where none does."""
    slots = [data[65536 + i * 128 : 65536 + (i + 1) * 128] for i in _around(position, capacity, 1)]
    seq, checksum = struct.unpack_from("<QI", slots[0])
    kind, span, t_ns, rid, *numbers = struct.unpack_from("<HHQ40s8q", slots[0], 12)
    if seq != position or not 1 <= span <= 255:
        return None, 1
    body = b"".join(data[65536 + i * 128 : 65536 + (i + 1) * 128] for i in _around(position, capacity, span))[12:]
    if adler32(body, seq % 65521) != checksum:
        return None, 1
    return Record(seq, t_ns, kind, decode_rid(rid), tuple(numbers), body[116:]), span


def _around(position: int, capacity: int, count: int) -> list[int]:
    return [(position - 1 + i) % capacity for i in range(count)]
