"""Rings of living, dying and returning processes, followed into the ledgers of their engines."""

import os
import subprocess
import sys
import time

import pytest

from hicache_exporter import follower as follower_module
from hicache_exporter.core.identity import Identity
from hicache_exporter.follower import LOOK_NS, SCAN_NS, Follower
from hicache_exporter.sources.ring import READ_SLOTS
from hicache_exporter.sources.ring_folder import RingFolder

from ..scribe import IDENTITY, MS, RingFile


@pytest.fixture
def folder(tmp_path):
    path = tmp_path / "rings"
    path.mkdir(mode=0o700)
    return path


def address(identity: Identity) -> str:
    return identity.address


class Follow:
    """A follower with a clock of its own."""

    def __init__(self, folder, assign=address, counting_from_ns=0):
        self.now = time.monotonic_ns()
        self.follower = Follower(RingFolder(str(folder)), assign, counting_from_ns)

    def round(self, after_ns=LOOK_NS):
        self.now += after_ns
        for _ in self.follower.steps(self.now):
            pass

    @property
    def engine(self):
        (engine,) = self.follower.engines.values()
        return engine

    def alive(self):
        return [found.alive for found in self.follower.live_ranks("127.0.0.1:30000")]


@pytest.fixture
def dead_pid():
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    return process.pid


def test_a_ring_is_followed_under_the_address_of_its_engine(folder):
    written = RingFile(folder)
    written.cold_request("a")
    follow = Follow(folder)
    follow.round()
    assert follow.engine.label == "127.0.0.1:30000"
    assert follow.engine.totals["tp0"].requests["none"] == 1
    assert follow.alive() == [True]
    assert follow.follower.followed[written.path.name].ledger.watching


def test_a_ring_without_an_identity_waits_and_loses_nothing(folder):
    written = RingFile(folder, identity={})
    written.lookup("early", 10)
    follow = Follow(folder)
    follow.round()
    assert (follow.follower.waiting, follow.follower.followed) == (1, {})
    written.identify(IDENTITY)
    follow.round()
    assert follow.follower.waiting == 0
    assert follow.engine.totals["tp0"].records == 1


def test_rings_of_engines_that_are_not_watched_are_left_alone(folder):
    RingFile(folder)
    follow = Follow(folder, assign=lambda identity: None)
    follow.round()
    assert (follow.follower.other_engine, follow.follower.followed) == (1, {})


def test_a_killed_process_is_read_to_its_end_and_then_down(folder, dead_pid):
    written = RingFile(folder, pid=dead_pid)
    written.cold_request("a")
    written.lookup("c", 300, host=299)
    written.admit("c", 300, host=299)
    follow = Follow(folder)
    follow.round()
    assert follow.alive() == []
    assert follow.engine.totals["tp0"].requests == {
        "device": 0,
        "host": 1,
        "storage": 0,
        "mixed": 0,
        "none": 1,
        "unattributed": 0,
    }
    assert {case.evidence.request_id: case.final for case in follow.engine.due(follow.now)} == {"a": True, "c": True}


def test_counts_go_on_with_the_next_process_of_the_engine(folder, dead_pid):
    RingFile(folder, pid=dead_pid).cold_request("a")
    follow = Follow(folder)
    follow.round()
    RingFile(folder).cold_request("b")
    follow.round(SCAN_NS)
    assert follow.alive() == [True]
    assert follow.engine.totals["tp0"].requests["none"] == 2


def test_a_removed_ring_leaves_its_counts_behind(folder, dead_pid):
    written = RingFile(folder, pid=dead_pid)
    written.cold_request("a")
    follow = Follow(folder)
    follow.round()
    written.path.unlink()
    follow.round(SCAN_NS)
    assert (follow.follower.followed, follow.engine.ranks) == ({}, {})
    assert follow.engine.totals["tp0"].requests["none"] == 1


def test_a_sidecar_that_starts_later_catches_up_without_counting_again(folder):
    written = RingFile(folder)
    written.cold_request("a", node=7)
    follow = Follow(folder, counting_from_ns=written.now_ns)
    follow.round()
    assert follow.engine.totals["tp0"].requests["none"] == 0
    written.demote(7, 300)
    written.host_request("c", node=7)
    follow.round()
    cases = {case.evidence.request_id: case.evidence for case in follow.engine.due(follow.now)}
    assert cases["c"].provenance.slots_known == 299
    assert follow.engine.totals["tp0"].requests["host"] == 1


def test_a_ring_whose_process_cannot_be_seen_lives_as_long_as_it_moves(folder, dead_pid):
    """The engine runs in another pid namespace and shares the folder."""
    written = RingFile(folder, pid=dead_pid)
    written.lookup("a", 1)
    follow = Follow(folder)
    follow.round()
    assert follow.alive() == []
    written.lookup("b", 1)
    follow.round()
    assert follow.alive() == [True]
    assert follow.engine.totals["tp0"].records == 2
    follow.round(31_000 * MS)
    assert follow.alive() == []


def test_a_ring_that_goes_bad_is_given_up_and_the_others_go_on(folder):
    bad, good = RingFile(folder), RingFile(folder, identity={**IDENTITY, "tp_rank": 1, "tp_size": 2})
    bad.lookup("a", 1)
    follow = Follow(folder)
    follow.round()
    bad.lookup("c", 1)
    os.truncate(bad.path, 65536)
    good.lookup("b", 1)
    follow.round()
    assert follow.follower.folder.refused[bad.path.name].reason == "truncated"
    assert [found.ledger.identity.rank for found in follow.follower.live_ranks("127.0.0.1:30000")] == ["tp1"]
    assert follow.engine.totals["tp1"].records == 1


def test_a_tripped_seam_is_seen(folder):
    written = RingFile(folder)
    follow = Follow(folder)
    follow.round()
    from hicache_tracing.records import SeamState

    written.seams({"PrefillAdder.add_one_req": SeamState.TRIPPED}, faults=5)
    follow.round()
    (found,) = follow.follower.followed.values()
    assert not found.ledger.watching
    assert found.seams[0].faults == 5


def test_a_stepped_wall_clock_is_noticed(folder, monkeypatch):
    written = RingFile(folder)
    written.host_request("c")
    follow = Follow(folder)
    follow.round()
    real = time.time_ns
    monkeypatch.setattr(time, "time_ns", lambda: real() + 3_600_000 * MS)
    follow.round()
    assert len(follow.engine.clock_steps) == 1


def test_one_round_takes_a_piece_of_each_ring(folder):
    written = RingFile(folder, capacity=20000)
    for index in range(10000):
        written.lookup(f"r{index % 7}", 1)
    follow = Follow(folder)
    follow.round()
    assert follow.follower.behind
    while follow.follower.behind:
        follow.round(0)
    assert follow.engine.totals["tp0"].records == 10000


def test_a_ring_that_goes_while_a_round_is_under_way_is_left_out(folder, dead_pid):
    """A scrape looks at the rings while the next round has begun and waits for its turn."""
    first, second = RingFile(folder), RingFile(folder, identity={**IDENTITY, "tp_rank": 1, "tp_size": 2})
    follow = Follow(folder)
    under_way = follow.follower.steps(follow.now)
    next(under_way)
    second.path.unlink()
    follow.round(SCAN_NS)
    assert list(under_way) == []
    assert list(follow.follower.followed) == [first.path.name]


def test_what_the_writer_drops_is_counted_even_if_it_writes_nothing_else(folder):
    written = RingFile(folder)
    follow = Follow(folder, counting_from_ns=1 << 62)
    follow.round()
    written.dropped(3)
    follow.round()
    assert follow.engine.totals["tp0"].lost["writer_dropped"] == 3


def test_a_dead_process_with_much_to_tell_is_read_to_the_end_and_was_never_alive(folder, dead_pid):
    written = RingFile(folder, capacity=20000, pid=dead_pid)
    for index in range(10000):
        written.lookup(f"r{index % 7}", 1)
    follow = Follow(folder)
    for _ in range(-(-10000 // READ_SLOTS) + 2):
        follow.round()
        assert not any(follow.alive())
    assert follow.engine.totals["tp0"].records == 10000


def test_more_engines_than_a_machine_has_room_for_leave_a_fixed_number(folder, monkeypatch):
    """Each of them would be a label of every series."""
    monkeypatch.setattr(follower_module, "MAX_ENGINES", 4)
    for port in range(30_000, 30_010):
        RingFile(folder, identity={**IDENTITY, "port": port, "model": f"m{port}"})
    follow = Follow(folder)
    follow.round()
    follow.round()
    assert len(follow.follower.engines) == 4
