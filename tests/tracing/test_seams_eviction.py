"""What is recorded of KV that leaves a tier: the device, with or without a host copy, and the host."""

from __future__ import annotations

import pytest

from hicache_tracing.guard import FAULTS_ALLOWED
from hicache_tracing.host_copies import HostCopies
from hicache_tracing.records import EvictCause, Kind, SeamState, Tier
from hicache_tracing.seams import ALL
from hicache_tracing.told import COPIES, function_of

from .engines import engine as running
from .moves import LONGER, OTHER, PROMPT, runs
from .ring import Ring


def test_of_what_the_host_still_holds(engine):
    engine.tree.cache_controller.mem_pool_host.free_slots = [*range(0, 2000, 2)]
    engine.serve("first", PROMPT)
    engine.scheduler.evict(300)
    [evict], [backup] = engine.ring().of(Kind.EVICT), engine.ring().of(Kind.BACKUP)
    facts = evict.named()
    assert (facts["tier"], facts["cause"]) == (Tier.DEVICE, EvictCause.DEMOTED)
    assert (facts["node_id"], facts["tokens"]) == (backup.named()["node_id"], 300)
    assert facts["runs_complete"] == 1
    assert runs(evict) == runs(backup), "the copy that stays is in the slots that the backup wrote"


class TestOfANodeWhoseHostSlotsCannotBeRead:
    NODES = 8

    @pytest.fixture
    def unreadable(self, tmp_path, monkeypatch):
        """Evicts NODES of 100 tokens each of an engine that fails to tell the slots of the first few; gives the ring,
        and how often it was asked.
        """

        def run(failing: int) -> tuple[Ring, int]:
            with running("v0523", tmp_path) as engine:
                core, asked = type(engine.tree.tree_core), []
                told = core.build_hicache_transfers

                def build_hicache_transfers(*given):
                    asked.append(given)
                    return told(*given) if len(asked) > failing else 1 / 0

                monkeypatch.setattr(core, "build_hicache_transfers", build_hicache_transfers)
                monkeypatch.setattr(HostCopies, "of", lambda *_: None)
                for i in range(self.NODES):
                    engine.serve(f"request {i}", range(1000 * i, 1000 * i + 100))
                engine.scheduler.evict(900)
                return engine.ring(), len(asked)

        return run

    def test_the_slots_are_unknown_and_those_of_the_others_are_not(self, unreadable):
        ring, asked = unreadable(failing=2)
        known = [(fact["tokens"], fact["runs_complete"]) for fact in ring.facts(Kind.EVICT)]
        assert known == [(100, 0)] * 2 + [(100, 1)] * (self.NODES - 2)
        assert asked == self.NODES
        assert ring.seams["host_slots"] == (SeamState.ATTACHED, True, 2)
        assert ring.of(Kind.SEAM_FAULT) == [], "nothing is missing in the story: the evictions themselves say it"

    def test_an_engine_that_always_fails_is_asked_no_more_after_a_few_and_that_is_told(self, unreadable, caplog):
        ring, asked = unreadable(failing=self.NODES)
        assert [fact["runs_complete"] for fact in ring.facts(Kind.EVICT)] == [0] * self.NODES
        assert asked == FAULTS_ALLOWED < self.NODES
        assert ring.seams["host_slots"] == (SeamState.TRIPPED, False, FAULTS_ALLOWED)
        assert ring.seams["UnifiedRadixCache._demote"][0] is SeamState.ATTACHED
        first, last = caplog.records
        assert "fault in seam host_slots" in first.getMessage()
        assert "switched itself off" in last.getMessage()


class TestOfANodeWhoseBackupWasSeen:
    """Its host slots are known from there; where they may be others by now, the engine is asked."""

    @pytest.fixture
    def asked(self, tmp_path, monkeypatch):
        """Serves and evicts a prompt; gives how often the engine was asked, and the slots of backup and eviction."""

        def run(before_eviction=lambda engine: None) -> tuple[int, list[tuple[int, int]], list[tuple[int, int]]]:
            with running("v0523", tmp_path) as engine:
                core, asked = type(engine.tree.tree_core), []
                told = core.build_hicache_transfers
                monkeypatch.setattr(core, "build_hicache_transfers", lambda *given: asked.append(given) or told(*given))
                engine.serve("first", PROMPT)
                before_eviction(engine)
                asked.clear()
                engine.scheduler.evict(300)
                [evict], [backup] = engine.ring().of(Kind.EVICT), engine.ring().of(Kind.BACKUP)
                assert evict.named()["runs_complete"] == 1
                return len(asked), runs(backup), runs(evict)

        return run

    def test_nobody_is_asked(self, asked):
        questions, written, kept = asked()
        assert (questions, kept) == (0, written)

    def test_its_slots_have_moved_unseen_while_storage_was_attached(self, asked):
        def restored_elsewhere(engine):
            engine.tree.enable_storage = True
            [node] = engine.tree.tree_core.nodes.values()
            node.host = node.host + 1000

        questions, written, kept = asked(restored_elsewhere)
        assert questions == 1
        assert kept == [(first + 1000, count) for first, count in written]

    @pytest.mark.parametrize(
        "event",
        [
            lambda engine: engine.tree.detach_storage_backend(),
            lambda engine: engine.session.seams[1].fault(ValueError("of ours")),
            lambda engine: engine.session.host_copies.remember(1, 299, (0, 1, b"")),
            lambda engine: setattr(engine.session, "tree", None),
        ],
        ids=["storage was detached", "a seam failed", "the node was split", "it is of another tree"],
    )
    def test_it_is_asked_once(self, asked, event):
        questions, written, kept = asked(event)
        assert (questions, kept) == (1, written)

    def test_who_was_asked_is_not_asked_again(self, tmp_path, monkeypatch):
        with running("v0523", tmp_path) as engine:
            asked, told = [], type(engine.tree.tree_core).build_hicache_transfers
            engine.serve("first", PROMPT)
            engine.session.host_copies.forget()
            engine.scheduler.evict(300)
            engine.serve("again", LONGER)
            monkeypatch.setattr(
                type(engine.tree.tree_core),
                "build_hicache_transfers",
                lambda *given: asked.append(given) or told(*given),
            )
            engine.scheduler.evict(301)
            first, *_, again = (record for record in engine.ring().of(Kind.EVICT) if record.named()["tokens"] == 300)
            assert (asked, runs(again)) == ([], runs(first))

    @pytest.mark.parametrize("how", ["switched off", "tripped"])
    @pytest.mark.parametrize("function", COPIES)
    def test_where_nobody_tells_of_other_copies_it_is_asked_each_time(self, tmp_path, function, how):
        """Under write_back a tree gives up the host copy of a node that is on the device, and makes another one later;
        after a reset another node may have its number.
        """
        off = frozenset(target.seam for target in ALL if target.name == function and how == "switched off")
        with running("v0523", tmp_path, {"seams_off": off}) as engine:
            for seam in engine.session.seams:
                if how == "tripped" and function_of(seam.name) == function:
                    for _ in range(FAULTS_ALLOWED):
                        seam.fault(ValueError("of ours"))
            engine.serve("first", PROMPT)
            engine.scheduler.evict(300)
            engine.serve("again", LONGER)
            node = next(node for node in engine.tree.tree_core.nodes.values() if len(node.key) == 300)
            node.host = node.host + 1000
            engine.scheduler.evict(301)
            first, again = (runs(record) for record in engine.ring().of(Kind.EVICT) if record.named()["tokens"] == 300)
            assert again == [(slot + 1000, count) for slot, count in first]


def test_of_what_nobody_holds(release, tmp_path):
    with running(release, tmp_path, host_tokens=100) as engine:
        engine.serve("first", PROMPT)
        engine.scheduler.evict(300)
        [facts] = engine.ring().facts(Kind.EVICT)
        assert (facts["tier"], facts["cause"], facts["tokens"]) == (Tier.DEVICE, EvictCause.DROPPED, 300)


def test_of_what_could_not_be_written_back(release, tmp_path):
    with running(release, tmp_path, host_tokens=100, hicache_write_policy="write_back") as engine:
        engine.serve("first", PROMPT)
        engine.scheduler.evict(300)
        evicted = engine.ring().facts(Kind.EVICT)
        if release == "v059":
            assert evicted == [], "this tree keeps what it cannot write"
        else:
            assert [(facts["cause"], facts["tokens"]) for facts in evicted] == [(EvictCause.DROPPED, 300)]


def test_from_the_host_to_make_room_there(release, tmp_path):
    with running(release, tmp_path, host_tokens=400) as engine:
        engine.serve("first", PROMPT)
        engine.scheduler.evict(300)
        engine.serve("second", OTHER)
        host = [facts for facts in engine.ring().facts(Kind.EVICT) if facts["tier"] == Tier.HOST]
        assert [(facts["cause"], facts["tokens"]) for facts in host] == [(EvictCause.HOST_EVICTED, 300)]


def test_of_sliding_window_state_is_not_counted_as_kv_tokens(tmp_path):
    with running("v0523", tmp_path) as engine:
        engine.serve("first", PROMPT)
        engine.scheduler.evict(300)
        components = engine.module("mem_cache.unified_radix_cache").ComponentType
        engine.tree.evict_host(10, components.SWA)
        assert [facts for facts in engine.ring().facts(Kind.EVICT) if facts["tier"] == Tier.HOST] == []
