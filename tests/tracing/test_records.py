"""The record layout: what the engine side writes is what every later sidecar must be able to read."""

from __future__ import annotations

import json
from pathlib import Path
from zlib import adler32

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hicache_tracing import records
from hicache_tracing.records import ABSENT, FIELDS, SLOT_SIZE, Kind, decode_rid, encode_rid, is_long, pack

from .layout import layout

GOLDEN = Path(__file__).parent / "golden"
T = 0x0102030405060708

numbers = st.lists(st.integers(-(1 << 63), (1 << 63) - 1), max_size=8)
ids = st.text(st.characters(), max_size=60)


class TestLayout:
    def test_is_the_one_kept_for_its_version(self):
        kept = json.loads((GOLDEN / f"layout-{records.LAYOUT_VERSION}.json").read_text())
        assert layout() == kept, (
            "The layout changed. After a release: raise LAYOUT_VERSION and keep the new layout beside the old one "
            "(see layout.py). Before the first release: keep the new layout in the old one's place."
        )

    def test_a_record_has_these_bytes(self):
        assert pack(7, Kind.LOOKUP, T, b"req-1", (300, 0, 299, ABSENT, -1)).hex() == (
            "0700000000000000"  # seq
            "a40a85c3"  # checksum, seeded with seq
            "0100" + "0100"  # kind, slots
            "0807060504030201"  # monotonic ns
            "7265712d31" + "00" * 35 +  # request id
            "2c01000000000000"
            "0000000000000000"
            "2b01000000000000"
            "0000000000000080"  # absent
            "ffffffffffffffff" + "00" * 24
        )  # fmt: skip

    def test_a_long_record_is_filled_up_to_whole_slots(self):
        packed = pack(1, Kind.LOAD, T, b"", (5, 3, 1, 1, 1), records.pack_runs([(4096, 3)]))
        assert len(packed) == 2 * SLOT_SIZE
        assert packed[12:16].hex() == "04000200"
        assert packed[SLOT_SIZE:].hex() == "00100000" + "03000000" + "00" * 120

    def test_no_kind_has_more_numbers_than_a_record_holds(self):
        assert set(FIELDS) == set(Kind)
        assert all(len(fields) <= records.NUMBERS for fields in FIELDS.values())

    def test_the_longest_lists_fit(self):
        assert records.MAX_RUNS * records.RUN.size <= records.MAX_EXTRA
        assert records.MAX_TEXT % SLOT_SIZE == 0, "a text that was cut must end with its slot: no padding to mistake"

    def test_a_record_never_spans_more_than_the_smallest_ring(self):
        assert len(pack(1, Kind.TEXT, 0, b"", (), bytes(records.MAX_EXTRA))) == 255 * SLOT_SIZE

    def test_header_areas_do_not_overlap(self):
        assert records.HEADER.size <= records.HEAD_OFFSET
        assert records.DROPPED_OFFSET + 8 <= records.IDENTITY_OFFSET
        assert records.IDENTITY_OFFSET + records.IDENTITY_ROOM == records.SEAMS_OFFSET
        assert records.SEAMS_OFFSET + records.SEAMS_ROOM * records.SEAM.size <= records.HEADER_SIZE


class TestRequestIds:
    @pytest.mark.parametrize("rid", ["", "a", "a" * 40, "é" * 20, "😀" * 10, "with space", "\x7f"])
    def test_up_to_40_bytes_are_carried_as_they_are(self, rid):
        assert encode_rid(rid) == rid.encode()
        assert decode_rid(encode_rid(rid).ljust(40, b"\0")) == rid

    @pytest.mark.parametrize("rid", ["a" * 41, "é" * 21, "😀" * 11, "x" * 100_000])
    def test_longer_ones_by_a_key_of_40_bytes(self, rid):
        key = encode_rid(rid)
        assert len(key) <= 40
        assert is_long(key)
        assert decode_rid(key) == "~" + key[1:17].hex()
        assert decode_rid(key.ljust(40, b"\0")) == decode_rid(key)

    @pytest.mark.parametrize(
        ("one", "other"),
        [
            ("abc", "abc\0"),
            ("\0", ""),
            ("a\0b", "a\0c"),
            ("\ud800", "\ud801"),
            ("\ud800", "���"),
            ("a" * 41, "a" * 42),
            ("a" * 41, decode_rid(encode_rid("a" * 41))),
        ],
        ids=["nul at the end", "only nul", "nul inside", "surrogates", "their replacement", "long", "a key's own text"],
    )
    def test_two_requests_are_never_taken_for_one(self, one, other):
        assert decode_rid(encode_rid(one)) != decode_rid(encode_rid(other))

    @given(st.lists(ids, min_size=2, max_size=2, unique=True))
    def test_two_requests_are_never_taken_for_one_whatever_their_ids(self, pair):
        one, other = (encode_rid(rid).ljust(40, b"\0") for rid in pair)
        assert decode_rid(one) != decode_rid(other)


class TestRecord:
    @given(st.integers(1, (1 << 64) - 1), st.sampled_from(Kind), numbers, st.binary(max_size=40), st.binary())
    def test_what_is_packed_is_what_is_read(self, seq, kind, values, rid, extra):
        packed = pack(seq, kind, T, rid, tuple(values), extra)
        assert len(packed) % SLOT_SIZE == 0
        position, checksum = records.PREFIX.unpack_from(packed)
        body = packed[records.PREFIX.size :]
        assert position == seq
        assert checksum == adler32(body, seq % 65521)
        read_kind, span, t_ns, read_rid, *read = records.BODY.unpack_from(body)
        assert (read_kind, span * SLOT_SIZE, t_ns) == (kind, len(packed), T)
        assert read_rid == rid.ljust(40, b"\0")
        assert read == values + [0] * (8 - len(values))
        assert body[records.BODY.size :].rstrip(b"\0") == extra.rstrip(b"\0")

    def test_the_checksum_tells_the_same_record_at_another_position(self):
        laps = [1 + lap * records.DEFAULT_CAPACITY for lap in range(1000)]
        assert len({records.PREFIX.unpack_from(pack(seq, 1, 0, b"", ()))[1] for seq in laps}) == len(laps)

    def test_too_long_an_extra_is_refused(self):
        with pytest.raises(ValueError, match="32513 bytes, 32512 at most"):
            pack(1, Kind.TEXT, 0, b"", (), bytes(records.MAX_EXTRA + 1))

    @pytest.mark.parametrize("number", [1 << 63, None, 1.5, "1"])
    def test_what_is_no_number_is_refused(self, number):
        with pytest.raises(Exception, match=r"argument|format"):
            pack(1, Kind.LOOKUP, 0, b"", (number,))

    def test_numbers_are_named_by_kind_and_unknown_kinds_have_none(self):
        record = records.Record(1, 0, Kind.RESET, "", (1, 2, 0, 0, 0, 0, 0, 0), b"")
        assert record.named() == {"open_loads": 1, "open_backups": 2}
        assert record._replace(kind=999).named() == {}

    @given(st.lists(st.tuples(st.integers(0, (1 << 32) - 1), st.integers(1, 1 << 31)), max_size=50))
    def test_runs_come_back(self, runs):
        padded = pack(1, Kind.LOAD, 0, b"", (), records.pack_runs(runs))[SLOT_SIZE:]
        assert records.unpack_runs(padded, len(runs)) == runs

    @given(st.lists(st.tuples(st.integers(-1, 1 << 60), st.integers(1, 1 << 60)), max_size=50))
    def test_pairs_come_back(self, pairs):
        extra = b"".join(records.PAIR.pack(*pair) for pair in pairs)
        padded = pack(1, Kind.TRANSFER, 0, b"", (), extra)[SLOT_SIZE:]
        assert records.unpack_pairs(padded, len(pairs)) == pairs
