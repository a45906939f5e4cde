"""Records of one ring in, counts and stories out."""

import gc

import pytest

from hicache_exporter.core import moves
from hicache_exporter.core import requests as module
from hicache_exporter.core.story import Story
from hicache_exporter.core.totals import Totals
from hicache_tracing.records import ABSENT, Direction, EvictCause, Kind, LoadBackOutcome, Tier

from ..scribe import MS, Scribe
from .ledgers import new_ledger, tell


@pytest.fixture
def scribe():
    return Scribe()


@pytest.fixture
def ledger():
    return new_ledger()


def test_known_series_start_at_zero():
    totals = Totals()
    assert totals.hit_tokens == {"device": 0, "host": 0, "storage": 0, "unattributed": 0}
    assert set(totals.requests.values()) == {0}


def test_a_hit_is_counted_once_at_admission(ledger, scribe):
    for _ in range(3):  # the scheduler tries again and again
        scribe.lookup("c", 300, device=100, host=150)
        scribe.load("c", 1, [(0, 150)])
        scribe.load_back("c", 150, 150)
    tell(ledger, scribe)
    assert sum(ledger.totals.hit_tokens.values()) == 0
    scribe.admit("c", 300, device=100, host=150)
    tell(ledger, scribe)
    assert ledger.totals.hit_tokens == {"device": 100, "host": 150, "storage": 0, "unattributed": 0}
    assert ledger.totals.requests["mixed"] == 1
    assert (ledger.totals.prompt_tokens, ledger.totals.computed_tokens) == (300, 50)


def test_a_promise_that_an_old_engine_credits_is_no_hit(ledger, scribe):
    """Before 0.5.20 the host is credited with what was promised, loaded or not."""
    scribe.lookup("c", 300, host=200)
    scribe.load_back("c", 200, 0, outcome=LoadBackOutcome.OVER_QUOTA)
    scribe.admit("c", 300, host=200)
    tell(ledger, scribe)
    assert ledger.totals.hit_tokens["host"] == 0
    assert ledger.totals.requests["none"] == 1
    assert (ledger.totals.promised_tokens, ledger.totals.loaded_tokens) == (200, 0)
    assert ledger.totals.load_backs["over_quota"] == 1


@pytest.mark.parametrize(
    ("cached", "difference"),
    [
        (150, {"unplaced": 0, "surplus": 0}),
        (170, {"unplaced": 20, "surplus": 0}),
        (120, {"unplaced": 0, "surplus": 30}),
        (ABSENT, {"unplaced": 0, "surplus": 0}),
    ],
)
def test_the_sum_of_the_tiers_is_held_against_what_the_engine_calls_cached(ledger, scribe, cached, difference):
    tiers = {"device_tokens": 100, "host_tokens": 50, "storage_tokens": 0}
    scribe.load_back("c", 50, 50)
    scribe.write(Kind.ADMIT, "c", prompt_tokens=300, computed_tokens=150, cached_tokens=cached, **tiers)
    tell(ledger, scribe)
    assert ledger.totals.hit_difference == difference
    assert ledger.totals.hit_tokens == {"device": 100, "host": 50, "storage": 0, "unattributed": 0}


def test_a_promise_that_was_not_kept_is_no_difference(ledger, scribe):
    """An old engine credits the host with the promise, and counts what is really cached."""
    scribe.lookup("c", 300, device=100, host=200)
    scribe.load_back("c", 200, 0, outcome=LoadBackOutcome.OVER_QUOTA)
    scribe.write(
        Kind.ADMIT, "c", prompt_tokens=300, computed_tokens=200, cached_tokens=100, device_tokens=100, host_tokens=200
    )
    tell(ledger, scribe)
    assert ledger.totals.hit_difference == {"unplaced": 0, "surplus": 0}


def test_tokens_without_a_tier_are_unattributed_never_folded_into_one(ledger, scribe):
    scribe.write(
        Kind.ADMIT,
        "c",
        prompt_tokens=300,
        device_tokens=ABSENT,
        host_tokens=ABSENT,
        storage_tokens=ABSENT,
        cached_tokens=120,
        computed_tokens=180,
    )
    tell(ledger, scribe)
    assert ledger.totals.hit_tokens == {"device": 0, "host": 0, "storage": 0, "unattributed": 120}
    assert ledger.totals.requests["unattributed"] == 1


def test_time_to_first_token_goes_to_the_tier_that_served(ledger, scribe):
    scribe.host_request("c")
    scribe.cold_request("a", slot=500)
    tell(ledger, scribe)
    assert ledger.totals.ttft["host"].count == 1
    assert ledger.totals.ttft["none"].count == 1
    assert ledger.totals.ttft["host"].total == pytest.approx(0.020)


def test_a_first_token_without_a_start_is_not_timed(ledger, scribe):
    scribe.admit("c", 300)
    scribe.write(Kind.FIRST_TOKEN, "c", prompt_tokens=300, received_ns=ABSENT, batch_requests=1)
    tell(ledger, scribe)
    assert ledger.totals.ttft["none"].count == 0
    assert ledger.find("c").first_token_ns is not None


def test_transfers_are_counted_when_they_finish(ledger, scribe):
    scribe.cold_request("a")
    tell(ledger, scribe)
    totals = ledger.totals
    assert totals.transfers == {"host_to_device": 0, "device_to_host": 1}
    assert totals.transfer_tokens["device_to_host"] == 300
    assert totals.transfer_bytes["device_to_host"] == 300 * 512
    assert totals.timed_bytes["device_to_host"] == 300 * 512
    assert totals.transfer_seconds["device_to_host"].total == pytest.approx(0.002)


def test_a_transfer_without_figures_counts_those_of_its_operations(ledger, scribe):
    """Acknowledgements before 0.5.16 carry no token count."""
    scribe.load("c", 1, [(0, 100)])
    scribe.load("c", 2, [(100, 50)])
    scribe.transfer(9, Direction.HOST_TO_DEVICE, [(1, 1), (1, 2)], ABSENT)
    scribe.transfer_done(9, Direction.HOST_TO_DEVICE, ABSENT, device_ns=ABSENT)
    tell(ledger, scribe)
    assert ledger.totals.transfer_tokens["host_to_device"] == 150
    assert ledger.totals.transfer_bytes["host_to_device"] == 150 * 512
    assert ledger.totals.transfer_seconds["host_to_device"].count == 0


def test_a_transfer_told_of_before_its_operation_is_put_together(ledger, scribe):
    """Older controllers start a backup's transfer inside write(), before that returns."""
    scribe.transfer(1, Direction.DEVICE_TO_HOST, [(7, 1)], 100)
    scribe.backup("a", 1, [(0, 100)], node=7)
    scribe.transfer_done(1, Direction.DEVICE_TO_HOST, 100)
    scribe.load("c", 1, [(0, 100)], node=7)
    tell(ledger, scribe)
    (load,) = ledger.find("c").loads
    assert load.read.unfinished_tokens == 0


def test_a_transfer_that_a_reset_dropped_is_told_apart(ledger, scribe):
    scribe.lookup("c", 300, host=100)
    scribe.load("c", 1, [(0, 100)])
    scribe.admit("c", 300, host=100)
    scribe.transfer(1, Direction.HOST_TO_DEVICE, [(1, 1)], 100)
    scribe.transfer_done(1, Direction.HOST_TO_DEVICE, 100, finished=0)
    scribe.write(Kind.RESET, open_loads=1)
    tell(ledger, scribe)
    assert ledger.totals.transfers["host_to_device"] == 0
    assert ledger.totals.transfers_dropped["host_to_device"] == 1
    assert ledger.totals.resets == 1
    assert ledger.find("c").loads[0].move.finished is False


def test_after_a_reset_no_slot_is_known(ledger, scribe):
    scribe.cold_request("a")
    scribe.write(Kind.RESET)
    scribe.host_request("c")
    tell(ledger, scribe)
    assert ledger.find("c").loads[0].read.known == 0


def test_a_backup_whose_slots_are_not_all_told_makes_all_unknown(ledger, scribe):
    """Some slots have new content now, and nobody knows which."""
    scribe.cold_request("a")
    scribe.backup("b", 2, [(1000, 10)], complete=0)
    scribe.host_request("c")
    tell(ledger, scribe)
    assert ledger.find("c").loads[0].read.known == 0
    assert ledger.totals.forgotten["slots"] == 300


def test_pages_that_storage_delivered_are_no_backups(ledger, scribe):
    from hicache_tracing.records import PrefetchOutcome, pack_runs

    scribe.cold_request("a")
    scribe.write(
        Kind.STORAGE_PREFETCH,
        "c",
        pack_runs([(0, 100)]),
        outcome=PrefetchOutcome.TRANSFERRED,
        runs=1,
        runs_complete=1,
    )
    scribe.host_request("c")
    tell(ledger, scribe)
    assert ledger.find("c").loads[0].read.known == 199


def test_evictions_are_counted_by_cause(ledger, scribe):
    scribe.demote(1, 100)
    scribe.write(Kind.EVICT, tier=Tier.DEVICE, cause=EvictCause.DROPPED, node_id=2, tokens=30)
    scribe.write(Kind.EVICT, tier=Tier.HOST, cause=EvictCause.HOST_EVICTED, node_id=ABSENT, tokens=7)
    tell(ledger, scribe)
    assert ledger.totals.evicted_tokens == {"demoted": 100, "dropped": 30, "host_evicted": 7}


def test_a_refused_backup_writes_nothing(ledger, scribe):
    scribe.write(Kind.BACKUP, "a", node_id=1, tokens=100, operation_id=1, accepted=0)
    tell(ledger, scribe)
    assert ledger.totals.backups_refused == 1


def test_the_gap_between_backup_and_reuse_and_the_wait_for_the_load(ledger, scribe):
    scribe.cold_request("a")
    scribe.demote(1, 300)
    scribe.now_ns += 3_000 * MS
    scribe.host_request("c")
    tell(ledger, scribe)
    assert ledger.totals.reuse_gap.count == 1
    assert 3.0 < ledger.totals.reuse_gap.total < 3.1
    assert ledger.totals.load_back_wait.total == pytest.approx(0.005)


def test_exemplars_carry_the_trace_of_a_sampled_request(ledger, scribe):
    scribe.lookup("c", 300)
    scribe.admit("c", 300)
    scribe.write(Kind.TRACE, "c", trace_id_high=0, trace_id_low=-1, span_id=5, sampled=1)
    scribe.first_token("c")
    tell(ledger, scribe)
    (exemplar,) = ledger.totals.ttft["none"].exemplars.values()
    assert exemplar.trace_id == "0" * 16 + "f" * 16


def test_a_request_that_the_engine_does_not_sample_gives_no_exemplar(ledger, scribe):
    scribe.lookup("c", 300)
    scribe.admit("c", 300)
    scribe.write(Kind.TRACE, "c", trace_id_high=0, trace_id_low=-1, span_id=5, sampled=0)
    scribe.first_token("c")
    tell(ledger, scribe)
    assert ledger.totals.ttft["none"].exemplars == {}


def test_a_long_request_id_is_told_by_its_text(ledger, scribe):
    long = "request-" * 20
    from hicache_tracing.records import encode_rid

    scribe.write(Kind.TEXT, encode_rid(long), long.encode(), length=len(long))
    scribe.lookup(long, 10)
    tell(ledger, scribe)
    assert ledger.request_id(ledger.find(long).rid) == long


def test_a_request_id_used_again_begins_a_new_story(ledger, scribe):
    scribe.cold_request("x")
    scribe.lookup("x", 300, device=299)
    scribe.admit("x", 300, device=299)
    tell(ledger, scribe)
    assert ledger.find("x").lookups == 1
    assert ledger.totals.requests["device"] == 1


def test_a_request_that_waits_beside_another_is_looked_up_once_a_promise(ledger, scribe):
    for _ in range(3):  # the recorder leaves a promise out only if it was the last one of all requests
        scribe.lookup("x", 300, host=200)
        scribe.lookup("y", 300, host=100)
    scribe.lookup("x", 300, device=200)
    tell(ledger, scribe)
    assert (ledger.find("x").lookups, ledger.find("y").lookups) == (2, 1)


def test_loads_of_a_retracted_request_do_not_change_how_it_was_served(ledger, scribe):
    scribe.lookup("x", 300)
    scribe.admit("x", 300)
    scribe.lookup("x", 300, host=200)
    scribe.load("x", 1, [(0, 200)])
    scribe.load_back("x", 200, 200)
    tell(ledger, scribe)
    story = ledger.find("x")
    assert (story.loads, story.load_back, story.lookups) == ([], None, 1)


def test_facts_from_before_the_sidecar_are_remembered_but_not_counted():
    """An earlier sidecar has counted them: counting them again would show as traffic that was not there."""
    totals = Totals()
    scribe = Scribe(start_ns=0)
    scribe.cold_request("a")
    ledger = new_ledger(totals, counting_from_ns=scribe.now_ns)
    scribe.demote(1, 300)
    scribe.host_request("c")
    tell(ledger, scribe)
    assert (totals.requests["none"], totals.requests["host"]) == (0, 1)
    assert totals.transfers == {"host_to_device": 1, "device_to_host": 0}
    assert ledger.find("c").loads[0].read.known == 299


def test_losses_are_counted_by_reason_and_known_by_place(ledger, scribe):
    scribe.lookup("a", 1)
    scribe.pieces[0] = bytes(128)
    scribe.lookup("b", 1)
    tell(ledger, scribe)
    assert ledger.totals.lost == {"overwritten": 0, "torn": 1, "unknown_kind": 0, "writer_dropped": 0}
    assert (ledger.lost_between(1, 2), ledger.lost_between(2, 9)) == (1, 0)


def test_the_number_of_stories_is_bounded_and_forgotten_ones_are_counted(scribe, monkeypatch):
    monkeypatch.setattr(module, "MAX_STORIES", 10)
    ledger = new_ledger()
    for index in range(30):
        scribe.lookup(f"r{index}", 10)
    tell(ledger, scribe)
    assert len(ledger.stories) == 10
    assert ledger.totals.forgotten["requests"] == 20


def test_every_kind_of_record_has_somebody_who_takes_it(ledger, scribe):
    for kind in Kind:
        scribe.write(kind, "r")
    tell(ledger, scribe)
    assert ledger.totals.records == len(Kind)


def stories() -> int:
    return sum(isinstance(thing, Story) for thing in gc.get_objects())


def test_what_is_forgotten_is_gone_at_once(monkeypatch):
    """Python seldom looks for cycles here; and no request may keep those before it."""
    monkeypatch.setattr(module, "MAX_STORIES", 10)
    monkeypatch.setattr(moves, "MAX_RECENT", 10)
    ledger, scribe = new_ledger(), Scribe()
    gc.collect()
    before = stories()  # those of other tests' ledgers
    gc.disable()
    try:
        for turn in range(200):  # a conversation: each turn reads what the one before has written
            scribe.cold_request(f"w{turn}", node=turn, operation=turn, slot=300 * (turn % 8))
            scribe.demote(turn, 300)
            scribe.host_request(f"r{turn}", node=turn, operation=turn, slot=300 * (turn % 8), transfer=1000 + turn)
            tell(ledger, scribe)
            ledger.news()
        assert 10 <= stories() - before <= 10 + 2 * 10
        assert gc.collect() < 20
    finally:
        gc.enable()
