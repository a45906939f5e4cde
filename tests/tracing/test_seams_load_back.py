"""What is recorded of a load-back: what was promised, what was loaded from which host slots, and why not."""

from __future__ import annotations

import pytest

from hicache_tracing.records import Kind, LoadBackOutcome

from .engines import Engine
from .engines import engine as running
from .moves import LONGER, OTHER, PROMPT, evict_then_ask_again, runs


def test_reads_the_very_slots_that_the_backup_wrote(engine):
    engine.tree.cache_controller.mem_pool_host.free_slots = [*range(0, 2000, 2), *range(1, 2001, 2)]
    evict_then_ask_again(engine)
    backup, [load] = engine.ring().of(Kind.BACKUP)[0], engine.ring().of(Kind.LOAD)
    assert runs(load) == runs(backup) == [(2 * i, 1) for i in range(300)]
    assert load.named()["node_id"] == backup.named()["node_id"]
    assert load.rid == "again"


def test_loaded(engine):
    evict_then_ask_again(engine)
    [load_back] = engine.ring().of(Kind.LOAD_BACK)
    [load] = engine.ring().of(Kind.LOAD)
    assert load_back.rid == "again"
    assert load_back.named() == {
        "promised_tokens": 300,
        "loaded_tokens": 300,
        "outcome": LoadBackOutcome.LOADED,
        "node_id": load.numbers[0],
        "threshold": 10,
        "quota": 10_000,
        "evicted_tokens": 0,
        "refused_loads": 0,
    }


def test_loaded_after_making_room(release, tmp_path):
    with running(release, tmp_path, device_tokens=400) as engine:
        engine.serve("first", PROMPT)
        engine.serve("fills the device", OTHER)
        req = engine.scheduler.receive("again", LONGER, max_new_tokens=2)
        engine.steps()
        assert req.cached_tokens_host == 300
        [facts] = engine.ring().facts(Kind.LOAD_BACK)
        assert (facts["outcome"], facts["loaded_tokens"]) == (LoadBackOutcome.LOADED, 300)
        assert facts["evicted_tokens"] == 300
        assert facts["refused_loads"] == (1 if release == "v059" else 0)
        assert len(engine.ring().of(Kind.LOAD)) == 1, "an operation that the engine refused was never queued"


class TestATreeThatAnswersWithMoreThanItLoads:
    """Of a hybrid model's tree: KV that never left the device may be used again once its state is back."""

    @pytest.fixture
    def told(self, tmp_path):
        """What is told of a load-back that answers 300 tokens and moves fewer: (loaded tokens, outcome, moved)."""

        def run(components: tuple[str, ...], moved: int) -> tuple[int, int, int]:
            with running("v0523", tmp_path) as engine:
                engine.tree.tree_components = components
                engine.tree.load_back_threshold = 0
                engine.serve("first", PROMPT)
                engine.scheduler.evict(300)
                [node] = engine.tree.tree_core.nodes.values()
                node.host = node.host[:moved]
                engine.serve("again", LONGER)
                [answer], [load] = engine.ring().facts(Kind.LOAD_BACK), engine.ring().facts(Kind.LOAD)
                return answer["loaded_tokens"], answer["outcome"], load["tokens"]

        return run

    @pytest.mark.parametrize("moved", [0, 100])
    def test_what_was_loaded_is_told_of_a_hybrid_one(self, told, moved):
        assert told(("FULL", "MAMBA"), moved) == (moved, LoadBackOutcome.LOADED, moved)

    @pytest.mark.parametrize("moved", [0, 100])
    def test_its_own_word_of_a_plain_one_which_the_transfers_then_contradict(self, told, moved):
        assert told(("FULL",), moved) == (300, LoadBackOutcome.LOADED, moved)


def test_a_hybrid_tree_that_was_not_seen_loading_is_taken_at_its_word(tmp_path):
    with running("v0523", tmp_path, {"seams_off": frozenset(["HybridCacheController.load"])}) as engine:
        engine.tree.tree_components = ("FULL", "MAMBA")
        evict_then_ask_again(engine)
        assert engine.ring().of(Kind.LOAD) == []
        assert [facts["loaded_tokens"] for facts in engine.ring().facts(Kind.LOAD_BACK)] == [300]


def test_declined_below_the_threshold(engine):
    engine.serve("first", PROMPT[:9])
    engine.scheduler.evict(9)
    engine.serve("again", PROMPT[:10])
    [facts] = engine.ring().facts(Kind.LOAD_BACK)
    assert facts["outcome"] == LoadBackOutcome.BELOW_THRESHOLD
    assert (facts["promised_tokens"], facts["loaded_tokens"], facts["threshold"]) == (9, 0, 10)
    assert engine.ring().of(Kind.LOAD) == []


def test_declined_over_quota(engine):
    engine.serve("first", PROMPT)
    engine.scheduler.evict(300)
    engine.scheduler.token_budget = 250
    engine.scheduler.receive("again", LONGER)
    engine.steps()
    facts = engine.ring().facts(Kind.LOAD_BACK)[0]
    assert facts["outcome"] == LoadBackOutcome.OVER_QUOTA
    assert (facts["promised_tokens"], facts["loaded_tokens"], facts["quota"]) == (300, 0, 250)


def test_no_room(release, tmp_path):
    with running(release, tmp_path, device_tokens=400) as engine:
        engine.serve("first", PROMPT)
        engine.scheduler.evict(300)
        engine.scheduler.receive("locks the device", OTHER, max_new_tokens=99)
        engine.steps()
        for node in _nodes(engine):
            node.locks += 1
        engine.scheduler.receive("again", LONGER, max_new_tokens=9)
        engine.steps()
        [facts] = engine.ring().facts(Kind.LOAD_BACK)
        assert facts["loaded_tokens"] == 0
        if release == "v059":
            assert (facts["outcome"], facts["refused_loads"]) == (LoadBackOutcome.NO_ROOM, 2)
        else:  # this tree looks at the room itself and asks nobody: nothing is seen that would say why
            assert (facts["outcome"], facts["refused_loads"]) == (LoadBackOutcome.UNKNOWN, 0)
        assert engine.ring().of(Kind.LOAD) == []


def test_a_request_with_nothing_promised_leaves_no_record(engine):
    engine.serve("first", PROMPT)
    engine.serve("again", LONGER)
    assert engine.ring().of(Kind.LOAD_BACK) == []


def test_staging_that_is_not_ready_is_told_from_a_refusal(tmp_path):
    """buffer_only: host memory holds no prefixes, and the admission is tried again until the rows are staged."""
    with running("v0523", tmp_path) as engine:
        engine.serve("first", PROMPT)
        engine.scheduler.evict(300)
        engine.tree.host_memory_mode = "buffer_only"
        engine.scheduler.receive("again", LONGER)
        engine.steps()
        [facts] = engine.ring().facts(Kind.LOAD_BACK)
        assert (facts["outcome"], facts["loaded_tokens"]) == (LoadBackOutcome.BUFFER_MODE, 0)
        assert [record.rid for record in engine.ring().of(Kind.ADMIT)] == ["first"]


def _nodes(engine: Engine) -> list:
    core = getattr(engine.tree, "tree_core", None)
    return list(core.nodes.values()) if core is not None else engine.tree.nodes
