"""What was counted between two looks."""

from __future__ import annotations

from msgspec.structs import replace
from tests.proof.chain.engines import HEALTHY, engine

from hicache_proof.chain.benefit import benefit
from hicache_proof.chain.facts import ChainInput, Mean
from hicache_proof.chain.reading import load_back, match
from hicache_proof.chain.setup import plugin
from hicache_proof.chain.storing import backup, occupancy
from hicache_proof.doctor.window import between, of_this_engine


def test_counters_become_what_was_counted_meanwhile_and_gauges_stay() -> None:
    later = engine(
        counted={"requests": 110, "cached_host": 61_000, "host_used": 151_000},
        recorded={"requests": 110, "load_backs": {"loaded": 21, "no_room": 4}, "lost_records": 3,
                  "ttft": {"host": Mean(count=21, total=1.9)}, "load": Mean(count=21, total=0.5)},
    )  # fmt: skip
    window = between(HEALTHY, later, 30.0)
    assert window.counted is not None
    assert window.recorded is not None
    assert (window.counted.since, window.counted.requests, window.counted.cached_host) == ("30 s ago", 10, 1_000)
    assert (window.counted.host_used, window.counted.evicted_tokens) == (151_000, 0)
    assert (window.counted.evicted_ever, window.watched_seconds) == (120_000, 30.0)
    assert (window.recorded.requests, window.recorded.load_backs) == (10, {"loaded": 1, "no_room": 4})
    assert window.recorded.ttft["host"].count == 1
    assert window.recorded.lost_records == 3
    assert window.recorded.processes == HEALTHY.recorded.processes  # type: ignore[union-attr]


def test_a_counter_that_fell_started_anew_and_one_that_appeared_started_at_zero() -> None:
    window = between(engine(counted={"cached_host": None}), engine(counted={"requests": 7, "cached_host": 5}), 1.0)
    assert window.counted is not None
    assert (window.counted.requests, window.counted.cached_host) == (7, 5)


def test_what_is_gone_is_not_there() -> None:
    assert between(HEALTHY, ChainInput(counted_missing="refused"), 1.0).counted is None


def test_what_the_recorders_of_earlier_runs_told_is_not_of_this_engine() -> None:
    nothing_yet = {"load_back_tokens": 0, "cached_host": 0, "evicted_tokens": 0}
    restarted = engine(counted=nothing_yet, recorded={"engine_restarts": 2})
    assert of_this_engine(HEALTHY) == HEALTHY
    assert match(of_this_engine(restarted)).state == load_back(of_this_engine(restarted)).state == "idle"
    assert benefit(of_this_engine(restarted)).state == "unknown"
    found = [finding.id for finding in plugin(of_this_engine(restarted)).findings]
    assert found == ["sidecar-older-than-engine"]
    full = engine(counted=nothing_yet | {"backup_tokens": 500_000}, recorded={"engine_restarts": 2, "lost_records": 9})
    assert [finding.id for finding in occupancy(of_this_engine(full)).findings] == ["l2-evicted-first"]
    assert [finding.id for finding in plugin(of_this_engine(full)).findings] == ["sidecar-older-than-engine"]


def test_a_window_after_a_restart_is_of_this_engine_alone() -> None:
    before = engine(recorded={"engine_restarts": 2})
    later = engine(recorded={"engine_restarts": 2, "promised_tokens": 61_000})
    assert plugin(between(before, later, 30.0)).findings == ()
    assert match(between(before, later, 30.0)).says == "1,000 tokens found in L2 by lookups"


def backup_of(watched: float | None, **counted: float) -> tuple[str, tuple[str, ...]]:
    """State of the stage and what is found there, for an engine with pages of 64 tokens."""
    facts = engine({"page_size": 64}, {"backup_tokens": 0, "cached_host": 0, "evicted_tokens": 0, **counted})
    stage = backup(replace(facts, watched_seconds=watched))
    return stage.state, tuple(finding.id for finding in stage.findings)


def test_a_window_of_hits_in_l1_alone_has_nothing_to_back_up() -> None:
    hits = {"requests": 10, "prompt_tokens": 10_000, "cached_device": 9_600}
    assert backup_of(30.0, **hits) == ("idle", ())
    assert backup_of(30.0, **hits | {"cached_device": 9_300}) == ("broken", ("nothing-backed-up",)), (
        "a page each is new"
    )


def test_since_its_start_an_engine_has_computed_what_it_now_hits() -> None:
    hits = {"requests": 10, "prompt_tokens": 10_000, "cached_device": 9_600}
    assert backup_of(None, **hits) == ("broken", ("nothing-backed-up",))


def test_a_window_that_does_not_count_its_requests_is_judged_as_before() -> None:
    assert backup_of(30.0, requests=0, prompt_tokens=10_000, cached_device=9_990)[0] == "broken"
