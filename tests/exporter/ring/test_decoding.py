"""Slots to records: what is believed, and how the rest is counted."""

import struct
from zlib import crc32

from hypothesis import given, settings
from hypothesis import strategies as st

from hicache_exporter.core.decoding import decode, named
from hicache_tracing.records import DEFAULT_CAPACITY, SLOT_SIZE, Kind, pack

from ..scribe import Scribe


def slots(scribe: Scribe) -> bytearray:
    return bytearray(b"".join(scribe.pieces))


def three_records() -> Scribe:
    scribe = Scribe()
    for request in "abc":
        scribe.lookup(request, 10)
    return scribe


def read(data, first=1, *, overwritable=0, complete=True):
    return decode(bytes(data), first, overwritable=overwritable, complete=complete)


def test_every_sound_record_is_read_with_its_named_numbers():
    scribe = Scribe()
    scribe.lookup("req-1", 300, device=10, host=20, node=7)
    (row,) = read(slots(scribe)).rows
    assert named(row) == {
        "prompt_tokens": 300,
        "device_tokens": 10,
        "host_tokens": 20,
        "storage_tokens": 0,
        "node_id": 7,
    }


def test_a_long_record_brings_its_extra_bytes_and_the_next_one_follows():
    scribe = Scribe()
    runs = [(i * 10, 5) for i in range(40)]
    scribe.load("req-1", 1, runs)
    scribe.lookup("req-2", 3)
    found = read(slots(scribe))
    assert [row[0] for row in found.rows] == [1, 5]
    assert found.extras[1][: 40 * 8] == b"".join(struct.pack("<II", *run) for run in runs)
    assert found.next_seq == 6


def test_a_ring_of_layout_1_is_read_by_its_own_checksum():
    new = slots(three_records())
    old = bytearray(new)
    for start in range(0, len(old), SLOT_SIZE):
        (seq,) = struct.unpack_from("<Q", old, start)
        struct.pack_into("<I", old, start + 8, crc32(old[start + 12 : start + SLOT_SIZE], seq))
    rows = decode(bytes(old), 1, overwritable=0, complete=True, layout=1).rows
    assert [row[2:] for row in rows] == [row[2:] for row in read(new).rows]
    assert read(old).rows == []


@given(st.integers(1, 1 << 40), *[st.tuples(*[st.integers(-1, 5000)] * 8)] * 2, st.integers(0, 10**12))
def test_a_record_half_written_over_the_one_of_a_lap_before_is_torn(seq, new, old, took_ns):
    written = pack(seq + DEFAULT_CAPACITY, Kind.LOAD_BACK, took_ns, b"new", new)
    before = pack(seq, Kind.LOAD_BACK, 0, b"old", old)
    for half in range(8, SLOT_SIZE):  # it has its seq, or is seen to be the old one
        mixed = written[:half] + before[half:]
        if mixed != written:
            assert read(mixed, seq + DEFAULT_CAPACITY).rows == []


def test_a_flipped_bit_is_a_torn_record_and_costs_only_that_record():
    data = slots(three_records())
    data[SLOT_SIZE + 70] ^= 1
    found = read(data)
    assert [row[0] for row in found.rows] == [1, 3]
    assert [(loss.reason, loss.first, loss.last, loss.count) for loss in found.losses] == [("torn", 2, 2, 1)]


def test_two_torn_records_side_by_side_are_two():
    data = slots(three_records())
    data[70] ^= 1
    data[SLOT_SIZE + 70] ^= 1
    assert [(loss.first, loss.last, loss.count) for loss in read(data).losses] == [(1, 2, 2)]


def test_a_torn_long_record_is_one_however_many_slots_it_takes():
    scribe = Scribe()
    scribe.load("req-1", 1, [(i * 10, 5) for i in range(40)])
    scribe.lookup("req-2", 3)
    data = slots(scribe)
    data[2 * SLOT_SIZE] ^= 0xFF
    found = read(data)
    assert [row[0] for row in found.rows] == [5]
    assert [(loss.reason, loss.count) for loss in found.losses] == [("torn", 1)]


def test_what_the_writer_had_reached_again_is_overwritten_not_torn():
    data = slots(three_records())
    later = Scribe()
    later.next_seq = 1025
    later.lookup("z", 1)
    data[:SLOT_SIZE] = later.pieces[0]
    found = read(data, overwritable=2)
    assert [(loss.reason, loss.count) for loss in found.losses] == [("overwritten", 1)]


def test_a_record_of_an_unknown_kind_is_counted_and_skipped():
    data = pack(1, 999, 5, b"", (1,), b"x" * 200) + pack(4, Kind.RESET, 6, b"", (0, 0))
    found = read(data)
    assert [row[0] for row in found.rows] == [4]
    assert [(loss.reason, loss.first, loss.last, loss.count) for loss in found.losses] == [("unknown_kind", 1, 3, 1)]


def test_a_record_that_goes_on_behind_the_data_is_left_for_the_next_read():
    scribe = Scribe()
    scribe.lookup("a", 1)
    scribe.load("a", 1, [(i * 10, 5) for i in range(40)])
    data = slots(scribe)[: 2 * SLOT_SIZE]
    found = read(data, complete=False)
    assert (found.next_seq, found.losses) == (2, [])


def test_a_record_that_claims_to_go_beyond_what_was_committed_is_torn():
    scribe = Scribe()
    scribe.load("a", 1, [(i * 10, 5) for i in range(40)])
    found = read(slots(scribe)[:SLOT_SIZE], complete=True)
    assert [(loss.reason, loss.count) for loss in found.losses] == [("torn", 1)]
    assert found.next_seq == 2


@settings(max_examples=200, deadline=None)
@given(st.binary(max_size=20 * SLOT_SIZE), st.integers(1, 2**63), st.integers(0, 2**63), st.booleans())
def test_garbage_never_raises_and_never_yields_a_record(data, first, overwritable, complete):
    data = data[: len(data) // SLOT_SIZE * SLOT_SIZE]
    found = read(data, first, overwritable=overwritable, complete=complete)
    assert found.rows == []
    assert first <= found.next_seq <= first + len(data) // SLOT_SIZE


@settings(max_examples=200, deadline=None)
@given(st.lists(st.integers(0, 60), min_size=1, max_size=12), st.data())
def test_whatever_byte_is_damaged_all_other_records_are_read(run_counts, data):
    scribe = Scribe()
    starts = []
    for operation, runs in enumerate(run_counts):
        starts.append(scribe.next_seq)
        scribe.load("r", operation, [(i * 3, 2) for i in range(runs)])
    raw = slots(scribe)
    at = data.draw(st.integers(0, len(raw) - 1))
    raw[at] ^= data.draw(st.integers(1, 255))
    hit = max(start for start in starts if start <= at // SLOT_SIZE + 1)
    found = read(raw)
    assert [row[0] for row in found.rows] == [start for start in starts if start != hit]
    assert sum(loss.count for loss in found.losses) == 1
    assert found.next_seq == scribe.next_seq
