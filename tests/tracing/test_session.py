"""What a scheduler process remembers: little, bounded, and each transfer's end told once, whatever goes wrong."""

from __future__ import annotations

import gc
import weakref
from types import SimpleNamespace

import pytest

from hicache_tracing.config import Settings
from hicache_tracing.guard import around
from hicache_tracing.records import ABSENT, Kind
from hicache_tracing.ring_file import RecorderError
from hicache_tracing.session import MAX_RIDS, Session

from .engines import RELEASES, launch
from .engines import engine as running
from .ring import read

PROMPT = list(range(300))


@pytest.fixture
def session(tmp_path) -> Session:
    session = Session(Settings(folder=str(tmp_path), capacity=4096))
    session.open()
    return session


class TestMemory:
    def test_of_request_ids_is_bounded_by_their_length_too(self, session):
        """A client chooses its id, of a megabyte if it likes; the engine forgets it with the request, and so do we."""
        for i in range(50):
            session.key(f"{i}" * 100_000)
        assert sum(map(len, session._keys)) <= MAX_RIDS + 200_000
        for i in range(100_000):
            session.key(f"request-{i:030}")
        assert sum(map(len, session._keys)) <= MAX_RIDS

    @pytest.mark.parametrize("rid", [7, None, ("a", 1)], ids=str)
    def test_of_an_id_that_is_no_text_is_its_text(self, session, rid):
        assert session.key(rid) == session.key(rid) == str(rid).encode()

    @pytest.mark.parametrize("release", ["v0523", "v059"])
    def test_of_operations_is_bounded_where_the_engine_hides_their_transfer(self, monkeypatch, release, tmp_path):
        """A seam may be unknown, off, or have switched itself off; the ones beside it go on."""
        monkeypatch.setattr("hicache_tracing.session.MAX_QUEUED", 20)
        off = {"HiCacheController.start_writing", "HiCacheController.start_loading"}
        with running(release, tmp_path, {"seams_off": frozenset(off)}) as engine:
            for i in range(100):
                engine.serve(f"request {i}", [i, i])
            assert 0 < len(engine.session.backups.queued) <= 20

    @pytest.mark.parametrize("release", ["v0523", "v059"])
    def test_of_open_transfers_is_bounded_where_the_engine_hides_their_end(self, monkeypatch, release, tmp_path):
        monkeypatch.setattr("hicache_tracing.session.MAX_OPEN", 20)
        tree = {"v0523": "UnifiedRadixCache", "v059": "HiRadixCache"}[release]
        with running(release, tmp_path, {"seams_off": frozenset({f"{tree}.writing_check"})}) as engine:
            for i in range(100):
                engine.serve(f"request {i}", [i, i])
            assert 0 < len(engine.session.backups.open) <= 20
            engine.tree.reset()
            assert engine.session.backups.open == []


def test_a_call_under_way_when_it_falls_silent_writes_no_more(session):
    """A process may fork inside an engine function: the child comes back from it with a ring that is its parent's."""
    path, seam = session.recorder.path, session.new_seam("fork")
    call = around(session.silence, seam, after=lambda *_: session.write(Kind.WEIGHTS, session.key("x"), 1))
    call()
    assert read(path).head == 0
    assert seam.faults == 0


class TestTheEndOfATransfer:
    class Ack:
        num_bytes = 512
        timing_enabled = True
        finish_event = None

        def __init__(self, *, broken: bool = False) -> None:
            self.start_event = self
            self.broken = broken

        def elapsed_time(self, _other):
            if self.broken:
                raise RuntimeError("this event was never recorded")
            return 2.0

    def test_is_told_once_even_if_anothers_time_cannot_be_read(self, session):
        acks = [self.Ack(), self.Ack(broken=True), self.Ack()]
        for ack in acks:
            session.queued(session.loads, 1, 100)
            session.submitted(session.loads, ack, 0)
        with pytest.raises(RuntimeError, match="never recorded"):
            session.drained(session.loads, [])
        session.drained(session.loads, [])
        done = [facts["transfer_id"] for facts in read(session.recorder.path).facts(Kind.TRANSFER_DONE)]
        assert sorted(done) == sorted(set(done))
        assert session.loads.open == []

    def test_of_one_that_a_reset_dropped_has_no_time(self, session):
        session.queued(session.backups, 1, 100)
        session.submitted(session.backups, self.Ack(broken=True), 0)
        assert session.dropped() == (0, 1)
        [facts] = read(session.recorder.path).facts(Kind.TRANSFER_DONE)
        assert (facts["finished"], facts["device_ns"]) == (0, ABSENT)


def test_its_end_is_looked_for_from_when_something_is_queued_until_nothing_is_under_way(session):
    backups = session.backups
    session.drained(backups, [])
    assert not backups.end.open
    session.queued(backups, 1, 100)
    session.drained(backups, [])
    assert backups.end.open
    ack = TestTheEndOfATransfer.Ack()
    session.submitted(backups, ack, -1)
    session.drained(backups, [ack])
    assert backups.end.open
    session.drained(backups, [])
    assert not backups.end.open


def test_more_operations_than_a_record_lists_are_counted_all(session):
    for i in range(1500):
        session.queued(session.backups, i, 1)
    session.submitted(session.backups, TestTheEndOfATransfer.Ack(), 0)
    [transfer] = read(session.recorder.path).of(Kind.TRANSFER)
    assert transfer.named()["operations"] == transfer.named()["tokens"] == 1500
    assert len(transfer.extra) == 1000 * 16


class Watched:
    """A content witness that knows no rows, only who called it."""

    def __init__(self) -> None:
        self.called: list[str] = []

    def __getattr__(self, name):
        return lambda *_: self.called.append(name)


def test_after_a_reset_the_witness_knows_no_signature(tmp_path):
    with running("v0523", tmp_path) as engine:
        engine.session.witness = witness = Watched()
        engine.tree.reset()
        assert witness.called == ["forget"]


@pytest.mark.parametrize("release", RELEASES)
class TestAnotherSchedulerInTheProcess:
    """Only the last one is recorded: its nodes, slots and queues are not those of the one before."""

    def test_voids_what_is_open_and_what_is_known(self, release, tmp_path):
        with running(release, tmp_path) as first:
            first.serve("one", PROMPT)
            first.scheduler.evict(300)
            first.scheduler.receive("again", [*PROMPT, 7])
            first.steps()
            first.scheduler.token_budget = 0
            first.scheduler.receive("looked up, not admitted", PROMPT)
            first.steps()
            [finished] = first.ring().of(Kind.TRANSFER_DONE)
            assert first.session.host_copies._of
            assert first.session.promised
            second = launch(release, first.session)
            assert first.ring().facts(Kind.RESET) == [{"open_loads": 1, "open_backups": 1}]
            dropped = first.ring().of(Kind.TRANSFER_DONE)[1:]
            assert [record.named()["finished"] for record in dropped] == [0, 0]
            assert not first.session.host_copies._of
            assert not first.session.promised
            first.settle()
            assert first.ring().of(Kind.TRANSFER_DONE) == [finished, *dropped]
            assert second.session.tree is second.tree

    def test_but_the_same_one_again_voids_nothing(self, release, tmp_path):
        with running(release, tmp_path) as engine:
            engine.serve("one", PROMPT)
            known = dict(engine.session.host_copies._of)
            engine.session.identify(engine.scheduler)
            assert engine.session.host_copies._of == known != {}
            assert engine.ring().of(Kind.RESET) == []

    def test_is_no_business_of_the_witness_of_the_first(self, release, tmp_path, monkeypatch):
        """It has the addresses of the first one's rows. Nor is it freed, with a kernel under way in its tables."""
        witnesses = [Watched()]
        monkeypatch.setattr("hicache_tracing.session.make_witness", lambda *_: witnesses.pop())
        with running(release, tmp_path, {"content": "full"}) as first:
            first.scheduler.receive("one", PROMPT)
            first.steps()
            called, alive = list(first.session.witness.called), weakref.ref(first.session.witness)
            assert called
            second = launch(release, first.session)  # for which there is none left
            second.serve("one", PROMPT)
            second.scheduler.evict(300)
            second.serve("again", [*PROMPT, 7])
            assert second.session.witness is None
            assert alive().called == called


class TestOfTheEngine:
    def test_the_scheduler_is_not_kept(self, tmp_path):
        with running("v0523", tmp_path) as engine:
            engine.serve("one", PROMPT)
            scheduler, engine.scheduler = weakref.ref(engine.scheduler), None
            gc.collect()
            assert scheduler() is None

    def test_nothing_is_kept_where_nothing_is_recorded(self, tmp_path, monkeypatch):
        def refuse(*_):
            raise RecorderError("no place")

        monkeypatch.setattr("hicache_tracing.session.Recorder", refuse)
        session = Session(Settings(folder=str(tmp_path), capacity=4096))
        session.open()
        session.identify(SimpleNamespace(tree_cache=SimpleNamespace(cache_controller=object())))
        assert (session.tree, session.controller) == (None, None)
