"""GET /proofs and /proofs/{request id}."""

import asyncio
import dataclasses
import time

import msgspec
import pytest

from hicache_exporter import judging as module
from hicache_exporter.judging import Judging
from hicache_proof.evidence import Evidence
from hicache_proof.verdict import Judgement, judge

from ..scribe import RingFile


async def get(client, path, status=200, **query):
    async with client.get(path, params=query) as answer:
        assert answer.status == status, await answer.text()
        assert answer.content_type == "application/json"
        return await answer.json()


def l2_read(written):
    written.now_ns = time.monotonic_ns()
    written.cold_request("a", node=7)
    written.demote(7, 300)
    written.host_request("c", node=7)


async def test_the_newest_come_first_with_what_served_them(sidecar, rings):
    written = RingFile(rings)
    async with sidecar() as client:
        l2_read(written)
        first, second = (await get(client, "/proofs"))["proofs"]
    assert (first["request_id"], first["served_by"], first["verdict"]) == ("c", "host", "proven")
    assert (first["device_tokens"], first["host_tokens"], first["computed_tokens"]) == (0, 299, 1)
    assert (first["engine"], first["rank"], first["content"]) == ("127.0.0.1:30000", "tp0", "not_checked")
    assert first["ttft_seconds"] == pytest.approx(0.02)
    assert first["at"].endswith("Z")
    assert (second["request_id"], second["served_by"], second["verdict"]) == ("a", "none", "no_read")


async def test_the_list_can_be_cut(sidecar, rings):
    written = RingFile(rings)
    async with sidecar() as client:
        l2_read(written)
        assert [p["request_id"] for p in (await get(client, "/proofs", limit=1))["proofs"]] == ["c"]
        assert (await get(client, "/proofs", limit=0))["proofs"] == []
        assert "limit must be a number" in (await get(client, "/proofs", 400, limit="many"))["error"]


async def test_one_proof_is_complete_and_of_the_published_types(sidecar, rings):
    written = RingFile(rings)
    async with sidecar() as client:
        l2_read(written)
        told = await get(client, "/proofs/c")
    evidence = msgspec.convert(told["evidence"], Evidence)
    assert judge(evidence) == msgspec.convert(told["judgement"], Judgement)
    assert told["final"] is True


async def test_the_timeline_tells_what_was_before_and_what_the_request_did(sidecar, rings):
    written = RingFile(rings)
    async with sidecar() as client:
        l2_read(written)
        events = (await get(client, "/proofs/c"))["events"]
    assert [event["kind"] for event in events] == [
        "backup",
        "transfer_done",
        "evict",
        "lookup",
        "load",
        "load_back",
        "admit",
        "transfer",
        "first_token",
        "transfer_done",
        "finish",
    ]
    assert [event.get("earlier", False) for event in events] == [True] * 3 + [False] * 8
    assert events[0]["request_id"] == "a"
    assert events[2]["cause"] == "demoted"
    assert events[5]["quota"] is None
    assert events[7]["direction"] == "host_to_device"
    assert [event["at_ns"] for event in events] == sorted(event["at_ns"] for event in events)


async def test_waiting_for_a_request_that_is_still_to_come(sidecar, rings):
    written = RingFile(rings)
    async with sidecar() as client:
        asked = asyncio.create_task(get(client, "/proofs/c", wait=10))
        await asyncio.sleep(0.2)
        assert not asked.done()
        l2_read(written)
        told = await asyncio.wait_for(asked, 2)
    assert told["judgement"]["verdict"] == "proven"


async def test_waiting_does_not_end_with_a_verdict_that_may_still_change(sidecar, rings, monkeypatch):
    from hicache_exporter.core import engine_ledger
    from hicache_tracing.records import Direction

    monkeypatch.setattr(engine_ledger, "PROVISIONAL_NS", -1_000_000_000)
    written = RingFile(rings)
    async with sidecar() as client:
        written.now_ns = time.monotonic_ns()
        written.lookup("c", 300, host=299)
        written.load("c", 1, [(0, 299)])
        written.admit("c", 300, host=299)
        written.transfer(1, Direction.HOST_TO_DEVICE, [(1, 1)], 299)
        written.first_token("c")
        assert (await get(client, "/proofs/c"))["final"] is False
        asked = asyncio.create_task(get(client, "/proofs/c", wait=10))
        await asyncio.sleep(0.3)
        assert not asked.done()
        written.transfer_done(1, Direction.HOST_TO_DEVICE, 299)
        told = await asyncio.wait_for(asked, 2)
    assert (told["final"], told["evidence"]["transfers"][0]["finished"]) == (True, True)


async def test_waiting_ends_when_the_time_is_over(sidecar, rings):
    RingFile(rings)
    async with sidecar() as client:
        began = time.monotonic()
        told = await get(client, "/proofs/nobody", 404, wait=0.3)
    assert 0.25 < time.monotonic() - began < 2
    assert "not known" in told["error"]


async def test_an_unknown_request_says_that_the_folder_is_not_read(sidecar, rings):
    rings.chmod(0o777)
    async with sidecar() as client:
        await client.get("/metrics")
        assert "may be written by others" in (await get(client, "/proofs/nobody", 404))["error"]


async def test_an_unknown_request_says_why(sidecar, rings):
    async with sidecar() as client:
        assert "HICACHE_WITNESS=1" in (await get(client, "/proofs/nobody", 404))["error"]
        written = RingFile(rings)
        written.lookup("early", 300)
        await asyncio.sleep(0.3)
        assert "not admitted yet" in (await get(client, "/proofs/early", 404))["error"]


@pytest.mark.parametrize("request_id", ["with/slash", "ein Gruß ✓", "a?b#c%20", "x" * 200])
async def test_any_request_id_can_be_asked_for(sidecar, rings, request_id):
    from urllib.parse import quote

    from yarl import URL

    from hicache_tracing.records import Kind, encode_rid

    written = RingFile(rings)
    async with sidecar() as client:
        written.now_ns = time.monotonic_ns()
        raw = request_id.encode()
        if len(raw) > 40:
            written.write(Kind.TEXT, encode_rid(request_id), raw, length=len(raw))
        written.cold_request(request_id)
        told = await get(client, URL("/proofs/" + quote(request_id, safe=""), encoded=True))
    assert told["evidence"]["request_id"] == request_id


async def test_wait_must_be_a_number(sidecar, rings):
    async with sidecar() as client:
        for wait in ("soon", "-1", "nan", "inf"):
            assert "wait must be a number" in (await get(client, "/proofs/c", 400, wait=wait))["error"]


async def test_health_is_about_the_sidecar_not_about_engines(sidecar, rings):
    async with sidecar() as client:
        async with client.get("/-/healthy") as answer:
            assert answer.status == 200
        await asyncio.sleep(0.2)
        async with client.get("/-/ready") as answer:
            assert answer.status == 200
        client.sidecar._following.cancel()
        await asyncio.sleep(0.05)
        async with client.get("/-/healthy") as answer:
            assert answer.status == 500


# -- keeping and counting ----------------------------------------------------------------------------------------


def cases(*requests):
    """Final cases of cold requests, as an engine's ledger gives them."""
    from ..ledger.ledgers import tell
    from ..ledger.test_engine_ledger import engine_with
    from ..scribe import Scribe

    engine, (ledger,) = engine_with(0)
    scribe = Scribe()
    for request in requests:
        scribe.cold_request(request)
    tell(ledger, scribe)
    return engine.due(scribe.now_ns)


def test_recent_proofs_are_bounded(monkeypatch):
    monkeypatch.setattr(module, "KEPT", 3)
    judging = Judging(judge, 0)
    for case in cases(*"abcde"):
        judging.hear(case)
    assert [proof.evidence.request_id for proof in judging.recent()] == ["e", "d", "c"]
    assert judging.of("a") is None
    assert judging.counts_of("127.0.0.1:30000").verdicts["no_read"] == 5


def test_a_verdict_on_a_request_from_before_is_kept_and_not_counted():
    judging = Judging(judge, counting_from_ns=1 << 62)
    for case in cases("a"):
        judging.hear(case)
    assert judging.of("a").judgement.verdict == "no_read"
    assert sum(judging.counts_of("127.0.0.1:30000").verdicts.values()) == 0


def test_a_verdict_that_may_still_change_is_not_counted():
    judging = Judging(judge, 0)
    (case,) = cases("a")
    case.witnessed.story.settled = False
    proof = judging.hear(dataclasses.replace(case, final=False))
    assert not proof.final
    assert sum(judging.counts_of("127.0.0.1:30000").verdicts.values()) == 0
    judging.hear(case)
    assert judging.counts_of("127.0.0.1:30000").verdicts["no_read"] == 1


def test_a_fault_while_judging_costs_that_proof_only(caplog):
    def judge_but_not_a(evidence):
        if evidence.request_id == "a":
            raise RuntimeError("broken on purpose")
        return judge(evidence)

    judging = Judging(judge_but_not_a, 0)
    heard = [judging.hear(case) for case in cases(*"ab")]
    assert [proof is None for proof in heard] == [True, False]
    assert "request a could not be judged" in caplog.text


def test_an_outside_witness_adds_to_the_evidence():
    from hicache_proof.evidence import Physical

    def bus(case, evidence):
        seen = Physical(claimed_bytes=1, bus_bytes=1, baseline_bytes=0, usable=True)
        return msgspec.structs.replace(evidence, physical=seen)

    judging = Judging(judge, 0, [bus])
    (case,) = cases("a")
    assert judging.hear(case).evidence.physical.bus_bytes == 1
