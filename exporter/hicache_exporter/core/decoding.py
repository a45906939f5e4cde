"""Ring slots into records. Pure: bytes in, rows and losses out.

A row is the record as unpacked, not an object: at 200,000 records a second an object each is most of the cost.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, field
from typing import Final, Literal, TypeAlias

from hicache_tracing.records import CHECKSUMS, FIELDS, LAYOUT_VERSION, MAX_EXTRA, SLOT_SIZE, Kind

Row: TypeAlias = tuple[int, int, int, int, int, bytes, int, int, int, int, int, int, int, int]
"""(seq, checksum, kind, span, monotonic ns, request id padded to 40 bytes, eight numbers)"""

SLOT = struct.Struct("<QIHHQ40s8q")
assert SLOT.size == SLOT_SIZE
CHECKED_FROM = 12  # the checksum covers the slot from here: all but seq and itself
MAX_SPAN = 1 + MAX_EXTRA // SLOT_SIZE
KNOWN_KINDS = frozenset(int(kind) for kind in Kind)

SEQ: Final = 0
CHECKSUM: Final = 1
KIND: Final = 2
SPAN: Final = 3
T_NS: Final = 4
RID: Final = 5


def numbers(row: Row) -> tuple[int, int, int, int, int, int, int, int]:
    return row[6:]


def named(row: Row) -> dict[str, int]:
    """The numbers of a row under their names."""
    return dict(zip(FIELDS[Kind(row[KIND])], numbers(row), strict=False))


LossReason = Literal["overwritten", "torn", "unknown_kind", "writer_dropped"]


@dataclass(frozen=True, slots=True)
class Loss:
    """Records that were written and can't be read. ``first`` and ``last`` bound their positions, inclusive."""

    reason: LossReason
    first: int
    last: int
    count: int


@dataclass(slots=True)
class Decoded:
    rows: list[Row] = field(default_factory=list)
    extras: dict[int, bytes] = field(default_factory=dict)
    """Bytes of the further slots of a long record, by its seq."""
    losses: list[Loss] = field(default_factory=list)
    next_seq: int = 1
    """Where reading goes on."""


def decode(data: bytes, first: int, *, overwritable: int, complete: bool, layout: int = LAYOUT_VERSION) -> Decoded:
    """Read records from consecutive slots, the first of which has position ``first``.

    A slot that fails its check was overwritten during the copy if its position is below ``overwritable``, else it is
    torn. ``complete``: the data end where the writer had committed to; otherwise a record may go on behind them and is
    left for the next read.
    """
    slots = _Slots(data, first, layout)
    result = Decoded()
    at = 0
    while (at := slots.take_sound(at, result)) < slots.total:
        if not complete and slots.goes_on(at):
            break
        start = at
        at += 1
        while at < slots.total and not slots.sound(at) and (complete or not slots.goes_on(at)):
            at += 1
        _count_damage(result.losses, slots, start, at, overwritable)
    result.next_seq = first + at
    return result


class _Slots:
    """The slots of one read, unpacked in bulk."""

    __slots__ = ("_data", "_layout", "first", "rows", "total")

    def __init__(self, data: bytes, first: int, layout: int) -> None:
        self.rows: list[Row] = list(SLOT.iter_unpack(data))
        self.total = len(self.rows)
        self.first = first
        self._data = data
        self._layout = layout

    def take_sound(self, at: int, into: Decoded) -> int:
        """Take sound records from slot ``at`` on: position and checksum are as expected. Returns the first slot at
        which none starts.
        """
        slots, data, first, total = self.rows, self._data, self.first, self.total
        rows, extras, known = into.rows, into.extras, KNOWN_KINDS
        compute, seeds = CHECKSUMS[self._layout]
        while at < total:
            row = slots[at]
            seq, checksum, kind, span = row[:4]
            start = at * SLOT_SIZE
            stop = start + span * SLOT_SIZE
            if seq != first + at or not 0 < span <= total - at:
                break
            if compute(data[start + CHECKED_FROM : stop], seq % seeds) != checksum:
                break
            if kind not in known:
                into.losses.append(Loss("unknown_kind", seq, seq + span - 1, 1))
            else:
                rows.append(row)
                if span > 1:
                    extras[seq] = data[start + SLOT_SIZE : stop]
            at += span
        return at

    def sound(self, at: int) -> bool:
        """A record that may be trusted starts here."""
        return self.take_sound(at, Decoded()) > at

    def goes_on(self, at: int) -> bool:
        """A record seems to start here that ends behind the data."""
        row = self.rows[at]
        return row[SEQ] == self.first + at and self.total - at < row[SPAN] <= MAX_SPAN


def _count_damage(losses: list[Loss], slots: _Slots, start: int, stop: int, overwritable: int) -> None:
    """Slots ``start`` to ``stop`` hold no sound record: those that the writer had reached again, then the torn ones.

    Of overwritten records only the slots can be counted. A torn record is known by its seq; a run of slots without
    one (a stray write) counts as one record.
    """
    first = slots.first
    border = min(max(overwritable - first, start), stop)
    if border > start:
        losses.append(Loss("overwritten", first + start, first + border - 1, border - start))
    if stop > border:
        heads = sum(slots.rows[at][SEQ] == first + at for at in range(border, stop))
        losses.append(Loss("torn", first + border, first + stop - 1, max(heads, 1)))
