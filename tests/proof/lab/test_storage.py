"""Series E: read from storage, shown or not."""

from __future__ import annotations

import pytest

from .fake_engine import FakeEngine

L3 = ("--l3", "--repetitions", "2")


@pytest.fixture(autouse=True)
def soon_still(monkeypatch):
    monkeypatch.setattr("hicache_proof.lab.preflight.STILL_SECONDS", 0.06)


def with_storage(**how):
    return FakeEngine(storage="file", **how)


@pytest.mark.parametrize("emptied", [(), ("--flush",)], ids=["by load", "by flush"])
def test_a_prefix_that_left_l1_and_l2_comes_from_storage(run_of, emptied):
    engine = with_storage()
    run = run_of(engine, *L3, *emptied)
    assert (run.storage.verdict, run.outcome.verdict, run.outcome.exit_code) == ("storage", "corroborated", 0)
    assert {request.judgement.served_by for request in run.of("E")} == {"storage"}
    assert "was read from L3 (file, prefetch policy wait_complete)" in run.storage.sentence
    assert run.storage.emptied_by == ("flush" if emptied else "load")
    assert engine.flushes == (2 if emptied else 0)
    assert "E" in run.ttft


def test_c_is_read_from_l2_although_storage_holds_it_too(run_of):
    run = run_of(with_storage(), *L3)
    assert {request.judgement.served_by for request in run.of("C")} == {"host"}


def test_without_a_storage_backend_series_e_is_refused_in_a_sentence(ask):
    engine = FakeEngine()
    result = ask(engine, *L3)
    assert result.exit_code == 2
    assert "has no L3: series E (--l3) needs a storage backend" in result.stderr
    assert not engine.bodies


def test_a_prefix_too_short_to_be_prefetched_is_refused(ask):
    result = ask(with_storage(), *L3, "--prefix-tokens", "200")
    assert result.exit_code == 2
    assert "too short for series E: SGLang leaves prefetches of fewer than 256 tokens undone" in result.stderr


def test_a_policy_that_gives_the_prefetch_up_shows_no_read_and_says_why(run_of):
    run = run_of(with_storage(prefetch="best_effort"), *L3)
    assert (run.storage.verdict, run.outcome.verdict, run.outcome.exit_code) == ("no_storage_read", "corroborated", 1)
    assert "Best_effort takes what has arrived" in run.storage.sentence


@pytest.mark.parametrize("policy", ["best_effort", "timeout"])
def test_no_flush_before_e_while_a_prefetch_may_be_under_way(run_of, policy):
    engine = with_storage(prefetch=policy)
    run = run_of(engine, *L3, "--flush")
    assert (engine.flushes, run.storage.emptied_by) == (1, "load"), "the flush at the start, and no other"


def test_storage_that_lost_what_it_took_shows_no_read(run_of):
    run = run_of(with_storage(loses_storage=True), *L3)
    assert (run.storage.verdict, run.outcome.exit_code) == ("no_storage_read", 1)
    assert {request.judgement.served_by for request in run.of("E")} == {"none"}


def test_a_read_whose_prefetch_nobody_saw_is_only_claimed(run_of):
    run = run_of(with_storage(prefetches_unseen=True), *L3)
    assert (run.storage.verdict, run.outcome.exit_code) == ("claimed", 1)


def test_without_the_recorder_it_is_only_claimed(run_of):
    run = run_of(with_storage(), *L3, "--without-recorder", sidecar=False)
    assert run.storage.verdict == "claimed"


def test_nothing_leaves_l2_before_it_is_known_to_be_in_storage(ask, monkeypatch):
    monkeypatch.setattr("hicache_proof.lab.on_request.STORAGE_SECONDS", 0.1)
    engine = with_storage(policy="write_through")
    engine.counts["stored"] = 0
    engine.storage_writes = False
    result = ask(engine, *L3, "--flush")
    assert result.exit_code == 2
    assert "not in storage: 0 of" in result.stderr
    assert engine.flushes == 1, "the first flush, and none before E"


def test_no_flush_while_the_storage_is_busy_for_that_can_end_the_engine(ask, monkeypatch):
    monkeypatch.setattr("hicache_proof.lab.preflight.STORAGE_SECONDS", 0.2)
    engine = with_storage(storage_busy=True)
    result = ask(engine, *L3, "--flush")
    assert (result.exit_code, engine.flushes) == (2, 0)
    assert "is still at work on its storage" in result.stderr
