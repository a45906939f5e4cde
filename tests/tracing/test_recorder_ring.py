"""Writing: records in order, none half done, none lost without being counted, and nothing that grows."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from threading import Thread

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hicache_tracing import records
from hicache_tracing.config import Settings
from hicache_tracing.recorder import Recorder, _writer
from hicache_tracing.records import SLOT_SIZE, Kind, SeamState, decode_rid
from hicache_tracing.session import Session

from .elsewhere import environment, output
from .ring import read

SLOTS = 1024


@pytest.fixture
def recorder(tmp_path) -> Recorder:
    return Recorder(str(tmp_path), SLOTS)


class TestHeader:
    def test_of_a_new_ring(self, recorder):
        ring = read(recorder.path)
        assert (ring.capacity, ring.head, ring.closed, ring.dropped) == (SLOTS, 0, 0, 0)
        assert Path(recorder.path).name == f"{ring.pid}-{ring.created[1]}.ring"
        assert ring.identity == {}

    def test_its_two_clocks_show_one_moment_however_long_the_room_takes(self, tmp_path, monkeypatch):
        allocate, passed = os.posix_fallocate, [0]
        monkeypatch.setattr("os.posix_fallocate", lambda *args: (passed.append(50_000_000), allocate(*args)))
        for clock, at in (("time_ns", 10**18), ("monotonic_ns", 10**12)):
            monkeypatch.setattr(f"hicache_tracing.recorder.{clock}", lambda at=at: at + sum(passed))
        monotonic, wall = read(Recorder(str(tmp_path), SLOTS).path).created
        assert sum(passed) > 0
        assert wall - monotonic == 10**18 - 10**12

    def test_a_clean_end_is_told_from_a_kill(self, recorder):
        assert read(recorder.path).closed == 0
        recorder.close()
        assert 0 < read(recorder.path).closed <= time.monotonic_ns()

    def test_identity(self, recorder):
        identity = {"model": "Qwen/Qwen2-7B ☃", "tp_rank": 3, "host_tokens": None, "odd": Path("/x")}
        recorder.identify(identity)
        assert read(recorder.path).identity == {**identity, "odd": "/x"}

    def test_a_shorter_identity_replaces_a_longer_one(self, recorder):
        recorder.identify({"model": "x" * 1000})
        recorder.identify({"model": "y"})
        assert read(recorder.path).identity == {"model": "y"}

    def test_an_identity_that_does_not_fit_is_refused_and_the_old_one_stays(self, recorder):
        recorder.identify({"model": "y"})
        with pytest.raises(ValueError, match="identity of 3"):
            recorder.identify({"model": "x" * 32768})
        assert read(recorder.path).identity == {"model": "y"}

    def test_seams(self, recorder):
        recorder.identify({"seams": ["one", "two"]})
        recorder.seam(1, SeamState.TRIPPED, True, 5)
        assert read(recorder.path).seams == {
            "one": (SeamState.MISSING, False, 0),
            "two": (SeamState.TRIPPED, True, 5),
        }

    def test_no_seam_writes_outside_its_table(self, recorder):
        recorder.write(Kind.WEIGHTS, b"", 1)
        recorder.seam(records.SEAMS_ROOM - 1, SeamState.ATTACHED, False, 0)
        assert len(read(recorder.path).records) == 1
        with pytest.raises(IndexError):
            recorder.seam(records.SEAMS_ROOM, SeamState.ATTACHED, False, 0)


class TestWriting:
    def test_records_come_back_in_order_with_their_times(self, recorder):
        started = time.monotonic_ns()
        for i in range(10):
            recorder.write(Kind.LOOKUP, b"req", 300, i, records.ABSENT)
        ring = read(recorder.path)
        assert [record.seq for record in ring.records] == list(range(1, 11))
        assert [record.numbers[:3] for record in ring.records] == [(300, i, records.ABSENT) for i in range(10)]
        times = [record.t_ns for record in ring.records]
        assert times == sorted(times)
        assert started <= times[0] <= times[-1] <= time.monotonic_ns()

    def test_a_long_record_wraps_around_the_end(self, recorder):
        for i in range(SLOTS - 3):
            recorder.write(Kind.WEIGHTS, b"", i)
        extra = random.Random(1).randbytes(9 * SLOT_SIZE)
        recorder.write(Kind.LOAD, b"long", 1, extra=extra)
        recorder.write(Kind.WEIGHTS, b"", -1)
        ring = read(recorder.path)
        assert ring.torn == []
        assert ring.of(Kind.LOAD)[0].extra == extra
        assert ring.records[-1].numbers[0] == -1
        assert ring.records[0].seq == ring.head - SLOTS + 1

    @settings(max_examples=25, deadline=None)
    @given(st.lists(st.integers(0, 254), min_size=1, max_size=60), st.integers(0, SLOTS))
    def test_what_is_still_in_the_ring_is_complete_whatever_the_sizes(self, tmp_path_factory, sizes, first):
        recorder = Recorder(str(tmp_path_factory.mktemp("ring")), SLOTS)
        for _ in range(first):
            recorder.write(Kind.WEIGHTS, b"")
        written = []
        for size in sizes:
            extra = random.Random(size).randbytes(size * SLOT_SIZE)
            recorder.write(Kind.LOAD, b"", size, extra=extra)
            written.append((size, extra))
        ring = read(recorder.path)
        assert ring.head == first + sum(1 + size for size in sizes)
        kept = [(record.numbers[0], record.extra) for record in ring.of(Kind.LOAD)]
        assert kept == written[len(written) - len(kept) :]
        oldest = ring.records[0].seq
        assert ring.torn == list(range(max(ring.head - SLOTS, 0) + 1, oldest)), "only the front of the oldest is cut"

    def test_the_head_only_ever_grows(self, recorder):
        heads = []
        for size in (0, 5, 254, 0, 254, 254, 254, 254, 1):
            recorder.write(Kind.LOAD, b"", extra=bytes(size * SLOT_SIZE))
            heads.append(read(recorder.path).head)
        assert heads == sorted(set(heads))

    @pytest.mark.parametrize("given", range(9))
    @pytest.mark.parametrize("extra", [b"", b"more"])
    def test_what_is_written_is_the_record_as_the_layout_packs_it(self, recorder, given, extra):
        recorder.write(Kind.ADMIT, b"req", *range(1, given + 1), extra=extra)
        written = Path(recorder.path).read_bytes()[records.HEADER_SIZE :][: SLOT_SIZE * (1 + bool(extra))]
        [record] = read(recorder.path).records
        assert written == records.pack(1, Kind.ADMIT, record.t_ns, b"req", tuple(range(1, given + 1)), extra)

    def test_a_ninth_number_is_no_call_at_all(self, recorder):
        with pytest.raises(TypeError):
            recorder.write(Kind.LOAD, b"", *range(9))
        recorder.write(Kind.WEIGHTS, b"", 1)
        ring = read(recorder.path)
        assert ring.dropped == 0
        assert [record.seq for record in ring.records] == [1]

    @pytest.mark.parametrize("bad", [{"extra": bytes(records.MAX_EXTRA + 1)}, {"numbers": (1 << 63,)}])
    def test_what_cannot_be_packed_is_counted_and_leaves_no_gap(self, recorder, bad):
        recorder.write(Kind.WEIGHTS, b"", 1)
        with pytest.raises(Exception, match=r"bytes|argument|format|range"):
            recorder.write(Kind.LOAD, b"", *bad.get("numbers", ()), extra=bad.get("extra", b""))
        recorder.write(Kind.WEIGHTS, b"", 2)
        ring = read(recorder.path)
        assert ring.dropped == 1
        assert [record.seq for record in ring.records] == [1, 2]

    @pytest.mark.parametrize("done", [0, 1, 2], ids=["up to the end", "from the start", "the head"])
    def test_one_that_fails_where_the_ring_wraps_moves_nothing(self, recorder, done):
        failures: list[bool] = []
        dropped = [0]
        ring, head = (Failing(memory, failures) for memory in (recorder._map, recorder._head))
        write = _writer(ring, SLOTS, head, dropped)
        for i in range(SLOTS - 1):
            write(Kind.WEIGHTS, b"", i)
        failures += [False] * done + [True]
        with pytest.raises(MemoryError):
            write(Kind.LOAD, b"", extra=b"fails")
        for extra in (b"wraps", b"follows"):
            write(Kind.LOAD, b"", extra=extra)
        written = read(recorder.path)
        assert (written.torn, written.head, dropped) == ([], SLOTS + 3, [1])
        assert [record.extra.rstrip(b"\0") for record in written.of(Kind.LOAD)] == [b"wraps", b"follows"]


class TestInBetween:
    """Nobody but the scheduler's thread should write. If somebody does, it is a counted loss, never a hidden one."""

    def test_a_signal_handler_in_the_middle_of_a_write(self, recorder, monkeypatch):
        def interrupted():
            signal.raise_signal(signal.SIGUSR1)
            return time.monotonic_ns()

        def handler(*_):
            recorder.write(Kind.FINISH, b"handler", 1)

        before = signal.signal(signal.SIGUSR1, handler)
        try:
            with monkeypatch.context() as patch:
                patch.setattr("hicache_tracing.recorder.monotonic_ns", interrupted)
                recorder.write(Kind.WEIGHTS, b"", 1)
            recorder.write(Kind.WEIGHTS, b"", 2)
        finally:
            signal.signal(signal.SIGUSR1, before)
        ring = read(recorder.path)
        assert [(record.seq, record.kind) for record in ring.records] == [(1, Kind.WEIGHTS), (2, Kind.WEIGHTS)]
        assert ring.dropped == 1

    def test_other_threads(self, tmp_path):
        recorder = Recorder(str(tmp_path), 1 << 17)
        before = sys.getswitchinterval()
        sys.setswitchinterval(1e-6)
        try:
            threads = [Thread(target=_write_many, args=(recorder, i)) for i in range(4)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        finally:
            sys.setswitchinterval(before)
        ring = read(recorder.path)
        assert ring.torn == []
        assert len(ring.records) + ring.dropped == 4 * 5000
        for i in range(4):
            mine = [record.numbers[1] for record in ring.records if record.numbers[0] == i]
            assert mine == sorted(set(mine))


class TestLongIds:
    def test_their_text_is_kept_once(self, recorder):
        rid = "chat-" + "é" * 100
        keys = {recorder.key(rid) for _ in range(5)}
        assert len(keys) == 1
        [text] = read(recorder.path).of(Kind.TEXT)
        assert text.rid == decode_rid(keys.pop())
        assert text.numbers[0] == len(rid.encode())
        assert text.extra[: text.numbers[0]].decode() == rid

    def test_a_client_cannot_push_others_records_out_with_them(self, recorder):
        recorder.key("x" * 1_000_000)
        [text] = read(recorder.path).of(Kind.TEXT)
        assert text.numbers[0] == 1_000_000
        assert len(text.extra) == records.MAX_TEXT

    def test_an_id_that_is_no_valid_text_is_kept_as_well_as_can_be(self, recorder):
        recorder.key("\ud800 half a character")
        [text] = read(recorder.path).of(Kind.TEXT)
        assert text.extra[: text.numbers[0]].decode() == "? half a character"

    def test_short_ones_need_no_text(self, recorder):
        recorder.key("a" * 40)
        assert read(recorder.path).head == 0

    def test_what_is_remembered_of_them_is_bounded(self, tmp_path):
        session = Session(Settings(folder=str(tmp_path), capacity=SLOTS))
        session.open()
        for i in range(10_000):
            session.key(f"{i}" * 41)
        assert len(session._keys) <= 4096
        assert len(session.recorder._texts) <= 1024


def test_a_kill_in_the_middle_of_a_write_storm_costs_no_committed_record(tmp_path):
    """Ten kills, each within a few microseconds of some write, two thirds of the records many slots long."""
    for attempt in range(10):
        folder = tmp_path / str(attempt)
        storm = subprocess.Popen([sys.executable, "-c", STORM, str(folder)], env=environment(), stdout=subprocess.PIPE)
        assert storm.stdout.readline() == b"storm\n"
        time.sleep(0.004 * attempt)
        storm.kill()
        storm.wait()
        storm.stdout.close()
        ring = read(next(folder.glob("*.ring")))
        assert ring.head > 0
        assert ring.closed == 0
        assert ring.dropped == 0
        counts = [record.numbers[0] for record in ring.records]
        assert counts == list(range(counts[0], counts[0] + len(counts))), "a record in the middle is missing"
        assert all(record.extra.strip(b"\0") == b"x" * record.numbers[1] for record in ring.records)
        # a write under way when the kill came may have begun to overwrite the oldest record, never a later one
        assert ring.records[0].seq - max(ring.head - ring.capacity, 0) <= 2 * 255
        assert ring.records[-1].seq + (ring.records[-1].numbers[1] + 127) // 128 == ring.head


STORM = """
import sys
from hicache_tracing.recorder import Recorder
recorder = Recorder(sys.argv[1], 1024)
count = 0
while True:
    length = count % 3 * (count % 97) * 100
    recorder.write(4, b"storm", count, length, extra=b"x" * length)
    count += 1
    if count == 200:
        print("storm", flush=True)
"""


def test_many_requests_cost_no_memory_no_thread_and_one_descriptor(tmp_path):
    """100,000 here; benchmarks/seam_cost.py does a million."""
    lines = output(
        f"""
        import os, threading
        from hicache_tracing.config import Settings
        from hicache_tracing.session import Session

        def rss():
            with open("/proc/self/statm") as file:
                return int(file.read().split()[1]) * os.sysconf("SC_PAGESIZE")

        def requests(first, count):
            write, key = session.write, session.key
            for i in range(first, first + count):
                write(2, key(f"request-{{i:030}}"), 300, 0, 299, 0, 299, 1, 1, 0)

        descriptors = len(os.listdir("/proc/self/fd"))
        session = Session(Settings(folder={str(tmp_path)!r}, capacity=32768))
        session.open()
        requests(0, 30_000)
        before = rss()
        requests(30_000, 100_000)
        print(rss() - before)
        print(len(os.listdir("/proc/self/fd")) - descriptors)
        print(threading.active_count(), len(os.listdir("/proc/self/task")))
        """
    ).splitlines()
    growth, descriptors, threads = int(lines[0]), int(lines[1]), lines[2]
    assert abs(growth) <= 512 << 10, "what is remembered of request ids comes and goes"
    assert descriptors == 1
    assert threads == "1 1"


class Failing:
    """Memory of which stores fail as ``failures`` says, which is used up."""

    def __init__(self, memory, failures: list[bool]) -> None:
        self.memory = memory
        self.failures = failures

    def __setitem__(self, place, data) -> None:
        if self.failures and self.failures.pop(0):
            raise MemoryError
        self.memory[place] = data


def _write_many(recorder: Recorder, thread: int) -> None:
    for i in range(5000):
        recorder.write(Kind.WEIGHTS, b"", thread, i, extra=b"x" * (i % 3 * 100))
