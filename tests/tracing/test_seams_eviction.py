"""What is recorded of KV that leaves a tier: the device, with or without a host copy, and the host."""

from __future__ import annotations

from hicache_tracing.records import EvictCause, Kind, Tier

from .engines import engine as running
from .moves import OTHER, PROMPT, runs


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


def test_from_an_engine_that_does_not_let_the_slots_be_read_is_asked_once(tmp_path, monkeypatch, caplog):
    with running("v0523", tmp_path) as engine:
        asked = []
        monkeypatch.setattr(type(engine.tree.tree_core), "build_hicache_transfers", lambda *a: asked.append(a) or 1 / 0)
        for i in range(3):
            engine.serve(f"request {i}", range(1000 * i, 1000 * i + 300))
        engine.scheduler.evict(900)
        facts = engine.ring().facts(Kind.EVICT)
        assert [(one["tokens"], one["runs"], one["runs_complete"]) for one in facts] == [(300, 0, 0)] * 3
        assert len(asked) == len(caplog.records) == 1


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
