"""The board: shared memory through which the GPU probe reports to the sidecar.

A probe process writes, the sidecar reads when it wants to. No pipe that fills up, no message to wait for: a probe
that hangs in the driver delays nobody, and what it wrote before stays readable. PCIe totals live here too, so they
go on where they stopped when a probe is killed and another takes over.

::

    0        header    heartbeat, current call, listing holds, snapshot head
    4096     snapshot  JSON (core.gpu_facts.Snapshot) with length and checksum
    262144   devices   32 areas: head (uuid, count of samples, unsafe gaps, hold), then a ring of SLOTS samples

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
SLOTS = 8192  # 164 s at 50 Hz
KEPT = SLOTS - 64  # the oldest slots may be overwritten while they are read

_U64 = struct.Struct("<Q")
_I64 = struct.Struct("<q")
_HEARTBEAT, _CALL, _LISTING_HOLDS = 0, 8, 64
_SNAPSHOT, _SNAPSHOT_HEAD, _SNAPSHOT_ROOM = 4096, struct.Struct("<II"), 256 * 1024 - 4096 - 8
_DEVICES = 256 * 1024
_UUID_ROOM, _COUNT, _UNSAFE, _HOLD, _SAMPLES = 96, 96, 104, 112, 128
_SAMPLE = struct.Struct("<Q4qq")  # number of the sample from 1, before, after, tx, rx, gap
_LOSSY = Gap.UNSAFE
_AREA = _SAMPLES + SLOTS * _SAMPLE.size
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

    def beat(self, now_ns: int) -> None:
        _U64.pack_into(self._map, _HEARTBEAT, now_ns)

    def heartbeat(self) -> int:
        return int(_U64.unpack_from(self._map, _HEARTBEAT)[0])

    def enter(self, call: int) -> None:
        """Note the call about to be made: a device's area number, FIRST_LISTING + index, STARTING or RESTING."""
        _I64.pack_into(self._map, _CALL, call)

    def current_call(self) -> int:
        return int(_I64.unpack_from(self._map, _CALL)[0])

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

    def claim(self, uuid: str) -> None:
        raw = uuid.encode("ascii", "replace")[:_UUID_ROOM]
        self._map[self._start : self._start + len(raw)] = raw
        self.uuid = raw.decode("ascii")

    def _get(self, field: int) -> int:
        return int(_U64.unpack_from(self._map, self._start + field)[0])

    def _set(self, field: int, value: int) -> None:
        _U64.pack_into(self._map, self._start + field, value)

    @property
    def hold_until_ns(self) -> int:
        """Not to be touched before: a call to this device hung."""
        return self._get(_HOLD)

    @hold_until_ns.setter
    def hold_until_ns(self, until_ns: int) -> None:
        self._set(_HOLD, until_ns)

    @property
    def unsafe_gaps(self) -> int:
        return self._get(_UNSAFE)

    @property
    def count(self) -> int:
        """Samples taken since the sidecar started."""
        return self._get(_COUNT)

    def append(self, sample: Sample) -> None:
        board, start = self._map, self._start
        count = _U64.unpack_from(board, start + _COUNT)[0] + 1
        _SAMPLE.pack_into(board, start + _SAMPLES + (count % SLOTS) * _SAMPLE.size, count, *sample)
        if sample.gap >= _LOSSY and count > 1:  # the first sample ever is a beginning, not a loss
            self._set(_UNSAFE, self.unsafe_gaps + 1)
        _U64.pack_into(board, start + _COUNT, count)

    def newest_first(self) -> Iterator[Sample]:
        count = self.count
        for wanted in range(count, max(0, count - KEPT), -1):
            number, before_ns, after_ns, tx, rx, gap = _SAMPLE.unpack_from(self._map, self._slot(wanted))
            if number != wanted:
                return
            yield Sample(before_ns, after_ns, tx, rx, Gap(gap))

    def latest(self) -> Sample | None:
        return next(self.newest_first(), None)

    def _slot(self, number: int) -> int:
        return self._start + _SAMPLES + (number % SLOTS) * _SAMPLE.size
