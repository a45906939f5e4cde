"""The board: shared memory through which the GPU probe reports to the sidecar.

A probe process writes, the sidecar reads when it wants to. No pipe that fills up, no message to wait for: a probe
that hangs in the driver delays nobody, and what it wrote before stays readable. PCIe totals live here too, so they
go on where they stopped when a probe is killed and another takes over.

::

    0        header    heartbeat, current call, listing holds, snapshot head
    4096     snapshot  JSON (core.gpu_facts.Snapshot) with length and checksum
    262144   devices   32 areas: head (uuid, hold), then two histories, tx and rx: head (count of samples, unsafe
                       gaps) and a ring of SLOTS samples

All times are CLOCK_MONOTONIC nanoseconds. One writer a field: the sidecar writes the holds, the probe the rest.
"""

from __future__ import annotations

import mmap
import os
import struct
from collections.abc import Iterator
from zlib import crc32

import msgspec

from hicache_exporter.core.gpu_facts import Snapshot
from hicache_exporter.core.pcie_meter import Gap, Sample

MAX_DEVICES = 32
SLOTS = 4096  # of each direction: 164 s, as under load it is read 25 times a second
KEPT = SLOTS - 64  # the oldest slots may be overwritten while they are read

_U64 = struct.Struct("<Q")
_HEART = struct.Struct("<Qq")  # heartbeat, current call
_LISTING_HOLDS = 64
_SNAPSHOT, _SNAPSHOT_HEAD, _SNAPSHOT_ROOM = 4096, struct.Struct("<II"), 256 * 1024 - 4096 - 8
_DEVICES = 256 * 1024
_UUID_ROOM, _HOLD, _TX = 96, 96, 128
_COUNT, _UNSAFE, _SAMPLES = 0, 8, 64
_SAMPLE = struct.Struct("<Q3qq")  # number of the sample from 1, before, after, total, gap
_LOSSY = Gap.UNSAFE
_HISTORY = _SAMPLES + SLOTS * _SAMPLE.size
_AREA = _TX + 2 * _HISTORY
SIZE = _DEVICES + MAX_DEVICES * _AREA

# what the probe is doing right now (``current call``): the sidecar reads it when the heartbeat stops
RESTING, STARTING, FIRST_LISTING = -1, -2, 1000


class Board:
    """The mapping. ``Board.create()`` in the sidecar, ``Board(fd)`` in the probe."""

    def __init__(self, fd: int) -> None:
        self.fd = fd
        self._map = mmap.mmap(fd, SIZE)

    @classmethod
    def create(cls) -> Board:
        fd = os.memfd_create("hicache-gpu-probe")
        os.ftruncate(fd, SIZE)
        return cls(fd)

    def close(self) -> None:
        self._map.close()
        os.close(self.fd)

    def beat(self, now_ns: int, call: int = RESTING) -> None:
        """Sign of life, with the call about to be made: a device's area number, FIRST_LISTING + index, or STARTING."""
        _HEART.pack_into(self._map, 0, now_ns, call)

    def heartbeat(self) -> int:
        return int(_HEART.unpack_from(self._map, 0)[0])

    def current_call(self) -> int:
        return int(_HEART.unpack_from(self._map, 0)[1])

    def publish(self, snapshot: Snapshot) -> None:
        text = msgspec.json.encode(snapshot)
        if len(text) > _SNAPSHOT_ROOM:
            raise ValueError(f"snapshot of {len(text)} bytes, {_SNAPSHOT_ROOM} at most")
        start = _SNAPSHOT + _SNAPSHOT_HEAD.size
        self._map[start : start + len(text)] = text
        _SNAPSHOT_HEAD.pack_into(self._map, _SNAPSHOT, len(text), crc32(text))

    def snapshot(self) -> Snapshot | None:
        """The last report; None before the first one, or while one is being written."""
        length, checksum = _SNAPSHOT_HEAD.unpack_from(self._map, _SNAPSHOT)
        start = _SNAPSHOT + _SNAPSHOT_HEAD.size
        text = self._map[start : start + min(length, _SNAPSHOT_ROOM)]
        if not length or crc32(text) != checksum:
            return None
        return msgspec.json.decode(text, type=Snapshot)

    def area(self, uuid: str) -> DeviceArea | None:
        """The device's area, claimed at first sight; None if all are taken."""
        for number in range(MAX_DEVICES):
            area = DeviceArea(self._map, number)
            if not area.uuid:
                area.claim(uuid)
            if area.uuid == uuid:
                return area
        return None

    def areas(self) -> list[DeviceArea]:
        """Areas of all devices ever seen: the ones that are expected."""
        found = (DeviceArea(self._map, number) for number in range(MAX_DEVICES))
        return [area for area in found if area.uuid]

    def hold_listing(self, index: int, until_ns: int) -> None:
        """Ask the probe not to touch the GPU of this index: asking for it hung, before its uuid was known."""
        _U64.pack_into(self._map, _LISTING_HOLDS + 8 * (index % 256), until_ns)

    def listing_hold(self, index: int) -> int:
        return int(_U64.unpack_from(self._map, _LISTING_HOLDS + 8 * (index % 256))[0])


class DeviceArea:
    """One device's part of the board."""

    def __init__(self, view: mmap.mmap, number: int) -> None:
        self._map = view
        self.number = number
        self._start = _DEVICES + number * _AREA
        raw = view[self._start : self._start + _UUID_ROOM]
        self.uuid = raw.rstrip(b"\0").decode("ascii", "replace")
        self.tx = History(view, self._start + _TX)
        self.rx = History(view, self._start + _TX + _HISTORY)

    def claim(self, uuid: str) -> None:
        raw = uuid.encode("ascii", "replace")[:_UUID_ROOM]
        self._map[self._start : self._start + len(raw)] = raw
        self.uuid = raw.decode("ascii")

    @property
    def hold_until_ns(self) -> int:
        """Not to be touched before: a call to this device hung."""
        return int(_U64.unpack_from(self._map, self._start + _HOLD)[0])

    @hold_until_ns.setter
    def hold_until_ns(self, until_ns: int) -> None:
        _U64.pack_into(self._map, self._start + _HOLD, until_ns)

    @property
    def unsafe_gaps(self) -> int:
        """Of both directions."""
        return self.tx.unsafe_gaps + self.rx.unsafe_gaps


class History:
    """The samples of one direction of a device's link."""

    def __init__(self, view: mmap.mmap, start: int) -> None:
        self._map, self._start = view, start

    @property
    def unsafe_gaps(self) -> int:
        return int(_U64.unpack_from(self._map, self._start + _UNSAFE)[0])

    @property
    def count(self) -> int:
        """Samples taken since the sidecar started."""
        return int(_U64.unpack_from(self._map, self._start + _COUNT)[0])

    def append(self, before_ns: int, after_ns: int, total: int, gap: Gap) -> None:
        """The parts of a Sample."""
        board, start = self._map, self._start
        count = _U64.unpack_from(board, start + _COUNT)[0] + 1
        place = start + _SAMPLES + (count % SLOTS) * _SAMPLE.size
        _SAMPLE.pack_into(board, place, count, before_ns, after_ns, total, gap)
        if gap >= _LOSSY and count > 1:  # the first sample ever is a beginning, not a loss
            _U64.pack_into(board, start + _UNSAFE, self.unsafe_gaps + 1)
        _U64.pack_into(board, start + _COUNT, count)

    def newest_first(self) -> Iterator[Sample]:
        count = self.count
        for wanted in range(count, max(0, count - KEPT), -1):
            place = self._start + _SAMPLES + (wanted % SLOTS) * _SAMPLE.size
            number, before_ns, after_ns, total, gap = _SAMPLE.unpack_from(self._map, place)
            if number != wanted:
                return
            yield Sample(before_ns, after_ns, total, Gap(gap))

    def latest(self) -> Sample | None:
        return next(self.newest_first(), None)
