"""Every family of the flight recorder on /metrics, each with the number that its records tell and no other."""

import time

import pytest

from hicache_exporter import names
from hicache_tracing.records import ABSENT, Direction, Kind, LoadBackOutcome

from ..scribe import MS, RingFile
from .exposition import series
from .test_metrics import scrape

UP, DOWN = "{direction=host_to_device}", "{direction=device_to_host}"


class CountingRing(RingFile):
    """Knows how many records it has taken."""

    written = 0

    def put(self, data):
        self.written += 1
        super().put(data)


@pytest.fixture
def found(sidecar, rings):
    """What is served after ``story`` was written by an engine that the sidecar was watching already."""

    async def serve(story):
        written = CountingRing(rings)
        async with sidecar() as client:
            await scrape(client)
            written.now_ns = time.monotonic_ns()
            story(written)
            return series(await scrape(client)), written

    return serve


async def test_copies_and_how_long_they_took(found):
    def story(engine):
        engine.cold_request("a", node=7)
        engine.demote(7, 300)
        engine.host_request("c", node=7)
        engine.transfer(101, Direction.HOST_TO_DEVICE, [], 10)
        engine.transfer_done(101, Direction.HOST_TO_DEVICE, 10, device_ns=ABSENT)  # an engine that does not time it

    served, _ = await found(story)
    assert served[f"hicache_transfers_total{UP}"] == 2
    assert served[f"hicache_transfer_bytes_total{UP}"] == 309 * 512
    assert served[f"hicache_transfer_timed_bytes_total{UP}"] == 299 * 512
    assert served[f"hicache_transfer_seconds_count{UP}"] == 1
    assert served[f"hicache_transfer_seconds_sum{UP}"] == pytest.approx(0.002)
    assert served[f"hicache_transfer_timed_bytes_total{DOWN}"] == 300 * 512


async def test_the_life_of_what_is_in_l2_its_reuse_and_the_wait_for_it(found):
    def story(engine):
        engine.cold_request("a", node=7)
        backed_up = engine.now_ns - 4 * MS
        engine.demote(7, 300)
        engine.now_ns = backed_up + 3000 * MS
        engine.host_request("c", node=7)
        engine.now_ns = backed_up + 8000 * MS
        engine.backup("b", 2, [(0, 300)], node=9)  # the last slot that was a's is b's now

    served, _ = await found(story)
    assert served["hicache_l2_reuse_gap_seconds_sum"] == pytest.approx(3, abs=0.01)
    assert served["hicache_l2_reuse_gap_seconds_count"] == 1
    assert served["hicache_l2_lifetime_seconds_sum"] == pytest.approx(8, abs=0.01)
    assert served["hicache_l2_lifetime_seconds_count"] == 1
    assert served["hicache_load_back_wait_seconds_count"] == 1
    assert served["hicache_load_back_wait_seconds_sum"] == pytest.approx(0.005)


@pytest.mark.parametrize("outcome", [LoadBackOutcome[name.upper()] for name in names.OUTCOMES if name != "loaded"])
async def test_a_load_back_that_was_declined_is_told_with_its_reason(found, outcome):
    def story(engine):
        engine.lookup("c", 300, host=200)
        engine.load_back("c", 200, 0, outcome=outcome)
        engine.admit("c", 300, host=200)

    served, _ = await found(story)
    told = {name: served[f"hicache_load_backs_total{{outcome={name}}}"] for name in names.OUTCOMES}
    assert told == {**dict.fromkeys(names.OUTCOMES, 0), outcome.name.lower(): 1}
    assert served["hicache_load_back_promised_tokens_total"] == 200
    assert served["hicache_load_back_loaded_tokens_total"] == 0
    assert served["hicache_hit_tokens_total{tier=host}"] == 0


async def test_what_a_flush_and_a_full_host_pool_cost(found):
    def story(engine):
        for _ in range(2):
            engine.write(Kind.BACKUP, "a", node_id=1, tokens=100, operation_id=1, accepted=0)
        engine.load("c", 2, [(0, 100)])
        engine.transfer(9, Direction.HOST_TO_DEVICE, [(1, 2)], 100)
        engine.transfer_done(9, Direction.HOST_TO_DEVICE, 100, finished=0)
        engine.write(Kind.RESET, open_loads=1)

    served, _ = await found(story)
    assert served["hicache_backups_refused_total"] == 2
    assert served["hicache_resets_total"] == 1
    assert served[f"hicache_transfers_dropped_total{UP}"] == 1
    assert served[f"hicache_transfers_total{UP}"] == 0


async def test_what_was_read_lost_and_forgotten(found, rings):
    def story(engine):
        engine.cold_request("a")
        engine.backup("b", 2, [(1000, 10)], complete=0)  # some slots have new content, nobody knows which
        engine.dropped(4)
        RingFile(rings, identity={})  # of a process that has not told who it is

    served, written = await found(story)
    lost = {reason: served[f"hicache_recorder_lost_records_total{{rank=tp0,reason={reason}}}"] for reason in LOSSES}
    assert served["hicache_recorder_records_total{rank=tp0}"] == written.written
    assert lost == {**dict.fromkeys(LOSSES, 0), "writer_dropped": 4}
    assert served["hicache_ledger_forgotten_total{rank=tp0,what=slots}"] == 300
    assert served["hicache_ledger_forgotten_total{rank=tp0,what=requests}"] == 0
    rings_by_state = {state: served[f"hicache_recorder_rings{{state={state}}}"] for state in names.RING_STATES}
    assert rings_by_state == {"followed": 1, "waiting": 1, "ended": 0, "other_engine": 0}


LOSSES = names.LOSS_REASONS


async def test_how_full_the_ring_was_when_it_was_read(found):
    def story(engine):
        for _ in range(512):  # half of it
            engine.demote(1, 1)

    served, _ = await found(story)
    assert 0 <= served["hicache_recorder_fill_ratio{rank=tp0}"] <= 0.5


async def test_spans_are_counted_by_what_became_of_them(sidecar, rings):
    RingFile(rings)
    async with sidecar() as client:
        client.sidecar.spanning.outcomes = lambda: {"exported": 5, "dropped": 3, "failed": 1}
        served = series(await scrape(client))
    assert [served[f"hicache_spans_total{{outcome={name}}}"] for name in names.SPAN_OUTCOMES] == [5, 3, 1]
