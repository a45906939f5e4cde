"""Spans as a real OTLP/HTTP receiver gets them."""

import asyncio
import os
import time

import pytest

from hicache_exporter.app import App
from hicache_exporter.config import Settings
from hicache_exporter.core import span_names as names
from hicache_tracing.records import Direction, Kind

from ..scribe import IDENTITY, MS, RingFile

INTERNAL = 1
TRACE = (1 << 127 | 0xABC).to_bytes(16, "big").hex()


@pytest.fixture(autouse=True)
def clean_environment(monkeypatch):
    for name in list(os.environ):
        if name.startswith("OTEL_"):
            monkeypatch.delenv(name)


@pytest.fixture
def rings(tmp_path):
    path = tmp_path / "rings"
    path.mkdir(mode=0o700)
    return path


async def tell(rings, received, story, expect, **identity):
    """Let a sidecar read ``story`` and wait for as many spans as expected (a little longer, to see too many)."""
    written = RingFile(rings, identity={**IDENTITY, **identity})
    app = App(Settings(ring_folder=str(rings), off=frozenset(("gpu", "pcie", "host"))))
    await app.start()
    try:
        written.now_ns = time.monotonic_ns()
        story(written)
        app.catch_up()
        deadline = time.monotonic() + 5
        while len(received.spans) < expect and time.monotonic() < deadline:
            await asyncio.sleep(0.02)
        await asyncio.sleep(0.1)
    finally:
        await app.stop()
    assert len(received.spans) == expect, [span["name"] for span in received.spans]
    return app


def l2_read(written):
    written.cold_request("a", node=7)
    written.demote(7, 300)
    written.host_request("c", node=7)


def traced(written, *, sampled=1):
    written.lookup("c", 300, host=299)
    written.load("c", 1, [(0, 299)])
    written.load_back("c", 299, 299)
    written.admit("c", 300, host=299)
    high, low = int(TRACE[:16], 16), int(TRACE[16:], 16)
    written.write(Kind.TRACE, "c", trace_id_high=high - (1 << 64), trace_id_low=low, span_id=0x55, sampled=sampled)
    written.transfer(100, Direction.HOST_TO_DEVICE, [(1, 1)], 299)
    written.first_token("c", 300)
    written.transfer_done(100, Direction.HOST_TO_DEVICE, 299)


async def test_an_l2_read_without_tracing_in_the_engine_makes_a_trace_of_its_own(rings, receiver):
    async with receiver() as received:
        # a: request, lookup, the backup's transfer; c: request, lookup, hit, the load's transfer, the eviction before
        await tell(rings, received, l2_read, 8)
    root = next(s for s in received.named(names.REQUEST) if s["attributes"][names.REQUEST_ID] == "c")
    lookup = next(s for s in received.named(names.LOOKUP) if s["attributes"][names.REQUEST_ID] == "c")
    hit = received.one("kv_cache.hit host")
    assert root["parent"] == ""
    assert (lookup["parent"], hit["parent"]) == (root["span_id"], root["span_id"])
    assert len({root["trace_id"], lookup["trace_id"], hit["trace_id"]}) == 1
    assert root["attributes"] == {
        "sglang.request.id": "c",
        "gen_ai.request.model": "tiny",
        "gen_ai.usage.input_tokens": 300,
        "gen_ai.usage.cache_read.input_tokens": 299,
    }
    assert lookup["attributes"] == {
        "sglang.hicache.operation.name": "lookup",
        "sglang.request.id": "c",
        "sglang.hicache.outcome": "hit",
        "sglang.hicache.verdict": "proven",
        "sglang.hicache.content": "not_checked",
        "sglang.hicache.served_by": "host",
        "sglang.hicache.prompt_tokens": 300,
        "sglang.tp.rank": 0,
        "sglang.pp.rank": 0,
        "sglang.dp.rank": 0,
    }
    assert hit["attributes"] == {
        "sglang.hicache.operation.name": "hit",
        "sglang.request.id": "c",
        "sglang.hicache.tier": "host",
        "sglang.hicache.hit_tokens": 299,
        "sglang.hicache.wait_time": pytest.approx(0.005),
        "sglang.hicache.basis": "measured",
        "sglang.hicache.pages": 299,
        "sglang.hicache.page_size": 1,
    }
    assert {span["kind"] for span in received.spans} == {INTERNAL}
    assert {span["status"] for span in received.spans} == {0}


async def test_hit_and_transfer_name_each_other(rings, receiver):
    async with receiver() as received:
        await tell(rings, received, l2_read, 8)
    hit, load = received.one("kv_cache.hit host"), received.one("kv_cache.transfer host_to_device")
    assert load["parent"] == ""
    assert load["trace_id"] != hit["trace_id"]
    assert [link[:2] for link in hit["links"]] == [(load["trace_id"], load["span_id"])]
    assert load["links"] == [
        (hit["trace_id"], hit["span_id"], {"sglang.request.id": "c", "sglang.hicache.hit_tokens": 299})
    ]
    assert load["attributes"] == {
        "sglang.hicache.operation.name": "transfer",
        "sglang.hicache.transfer.source_tier": "host",
        "sglang.hicache.transfer.destination_tier": "device",
        "sglang.hicache.transfer.tokens": 299,
        "sglang.hicache.transfer.size": 299 * 512,
        "sglang.hicache.batch.request_count": 1,
        "sglang.hicache.pages": 299,
        "sglang.hicache.page_size": 1,
    }
    assert load["end_ns"] - load["start_ns"] == 2 * MS  # on the device clock


async def test_the_backup_and_the_eviction_before_are_told_too(rings, receiver):
    async with receiver() as received:
        await tell(rings, received, l2_read, 8)
    backup, evict = received.one("kv_cache.transfer device_to_host"), received.one("kv_cache.evict device")
    lookup_of_a = next(s for s in received.named(names.LOOKUP) if s["attributes"][names.REQUEST_ID] == "a")
    assert [link[:2] for link in backup["links"]] == [(lookup_of_a["trace_id"], lookup_of_a["span_id"])]
    assert evict["attributes"]["sglang.hicache.evicted_tokens"] == 300
    assert evict["links"][0][2] == {"sglang.request.id": "c"}
    assert backup["end_ns"] < evict["start_ns"] < received.one("kv_cache.hit host")["start_ns"]


async def test_times_are_the_requests_own(rings, receiver):
    before = time.time_ns()
    async with receiver() as received:
        await tell(rings, received, l2_read, 8)
    root = next(s for s in received.named(names.REQUEST) if s["attributes"][names.REQUEST_ID] == "c")
    assert root["end_ns"] - root["start_ns"] == 20 * MS  # time to first token
    assert abs(root["end_ns"] - before) < 10_000 * MS
    assert all(span["start_ns"] <= span["end_ns"] for span in received.spans)


async def test_with_tracing_in_the_engine_spans_hang_below_its_request_span(rings, receiver):
    async with receiver() as received:
        await tell(rings, received, traced, 3)
    lookup, hit = received.one(names.LOOKUP), received.one("kv_cache.hit host")
    assert (lookup["trace_id"], lookup["parent"]) == (TRACE, f"{0x55:016x}")
    assert (hit["trace_id"], hit["parent"]) == (TRACE, f"{0x55:016x}")
    assert received.named(names.REQUEST) == []
    assert received.one("kv_cache.transfer host_to_device")["links"][0][:2] == (TRACE, hit["span_id"])


async def test_what_the_engine_does_not_sample_is_not_exported(rings, receiver):
    async with receiver() as received:
        await tell(rings, received, lambda written: traced(written, sampled=0), 0)


async def test_a_request_that_is_still_under_way_is_not_told_yet(rings, receiver, monkeypatch):
    from hicache_exporter.core import engine_ledger

    def unfinished(written):
        written.lookup("c", 300)
        written.admit("c", 300)

    monkeypatch.setattr(engine_ledger, "PROVISIONAL_NS", -1_000 * MS)
    async with receiver() as received:
        app = await tell(rings, received, unfinished, 0)
    assert [proof.final for proof in app.judging.recent()] == [False]


async def test_what_was_in_the_ring_before_is_not_told_again(rings, receiver):
    """An earlier sidecar has told it. All of a ring at once would also overflow the queue."""
    written = RingFile(rings, identity=IDENTITY)
    written.now_ns = time.monotonic_ns() - 60_000 * MS
    l2_read(written)
    async with receiver() as received:
        app = App(Settings(ring_folder=str(rings), off=frozenset(("gpu", "pcie", "host"))))
        await app.start()
        app.catch_up()
        assert [proof.final for proof in app.judging.recent()] == [True, True]
        await app.stop()
    assert received.spans == []


async def test_the_users_sampler_decides_for_traces_of_our_own(rings, receiver, monkeypatch):
    monkeypatch.setenv("OTEL_TRACES_SAMPLER", "always_off")
    async with receiver() as received:
        await tell(rings, received, l2_read, 0)


async def test_a_shared_transfer_links_to_every_request_and_counts_them_all(rings, receiver, monkeypatch):
    from hicache_exporter.core import spans

    monkeypatch.setattr(spans, "MAX_LINKS", 2)

    def shared(written):
        for index, request in enumerate("cde"):
            written.lookup(request, 300, host=100)
            written.load(request, index + 1, [(index * 100, 100)])
            written.load_back(request, 100, 100)
            written.admit(request, 300, host=100)
        written.transfer(100, Direction.HOST_TO_DEVICE, [(1, 1), (1, 2), (1, 3)], 300)
        for request in "cde":
            written.first_token(request)
        written.transfer_done(100, Direction.HOST_TO_DEVICE, 300)

    async with receiver() as received:
        await tell(rings, received, shared, 3 * 3 + 1)
    load = received.one("kv_cache.transfer host_to_device")
    assert load["attributes"]["sglang.hicache.batch.request_count"] == 3
    assert [link[2]["sglang.request.id"] for link in load["links"]] == ["c", "d"]
    lookups = {span["attributes"]["sglang.hicache.outcome"] for span in received.named(names.LOOKUP)}
    assert lookups == {"partial"}


def exemplars(app, family):
    (metric,) = [metric for metric in app.registry.collect() if metric.name == family]
    return [(sample.labels, sample.exemplar) for sample in metric.samples if sample.exemplar]


async def test_a_trace_of_our_own_is_named_by_the_exemplars_of_what_it_tells(rings, receiver):
    async with receiver() as received:
        app = await tell(rings, received, l2_read, 8)
    roots = {span["attributes"][names.REQUEST_ID]: span["trace_id"] for span in received.named(names.REQUEST)}
    first_tokens = {labels["tier"]: found for labels, found in exemplars(app, "hicache_ttft_seconds")}
    assert first_tokens["none"].labels == {"trace_id": roots["a"]}
    assert first_tokens["host"].labels == {"trace_id": roots["c"]}
    assert first_tokens["host"].value == pytest.approx(0.020)
    moved = {labels["direction"]: found for labels, found in exemplars(app, "hicache_transfer_seconds")}
    assert moved["device_to_host"].labels == {"trace_id": roots["a"]}
    assert moved["host_to_device"].labels == {"trace_id": roots["c"]}
    assert moved["host_to_device"].value == pytest.approx(0.002)


async def test_what_is_not_exported_is_no_exemplar(rings, receiver, monkeypatch):
    monkeypatch.setenv("OTEL_TRACES_SAMPLER", "always_off")
    async with receiver() as received:
        app = await tell(rings, received, l2_read, 0)
    assert exemplars(app, "hicache_ttft_seconds") == []
    assert exemplars(app, "hicache_transfer_seconds") == []


async def test_the_resource_is_the_rank_and_the_user_has_the_last_word(rings, receiver, monkeypatch):
    monkeypatch.setenv("OTEL_SERVICE_NAME", "my-engine")
    monkeypatch.setenv("OTEL_RESOURCE_ATTRIBUTES", "deployment.environment.name=test,sglang.dp.rank=9")
    async with receiver() as received:
        await tell(rings, received, l2_read, 8, pid=4711)
    resource = received.spans[0]["resource"]
    assert resource["service.name"] == "my-engine"
    assert resource["deployment.environment.name"] == "test"
    assert resource["sglang.dp.rank"] == "9"
    assert resource["sglang.tp.rank"] == 0
    assert resource["process.pid"] == 4711
    assert resource["service.instance.id"] == "127.0.0.1:30000/tp0"
    assert received.spans[0]["scope"][0] == "hicache_tracing"
    assert received.spans[0]["scope"][2].startswith("https://opentelemetry.io/schemas/")


async def test_exported_failed_and_dropped_spans_are_counted(rings, receiver, monkeypatch):
    async with receiver() as received:
        app = await tell(rings, received, l2_read, 8)
        assert app.spanning.outcomes() == {"exported": 8, "dropped": 0, "failed": 0}
        for ring in rings.iterdir():
            ring.unlink()
        received.spans.clear()
        received.status = 400
        app = await tell(rings, received, l2_read, 0)
        assert app.spanning.outcomes() == {"exported": 0, "dropped": 0, "failed": 8}


async def test_without_an_endpoint_there_is_no_export_and_no_import_of_it(rings):
    app = App(Settings(ring_folder=str(rings), off=frozenset(("gpu", "pcie", "host"))))
    assert app.spanning.state == "off"
    assert app.spanning.outcomes() == {"exported": 0, "dropped": 0, "failed": 0}


@pytest.mark.parametrize(("name", "value"), [("OTEL_SDK_DISABLED", "true"), ("OTEL_TRACES_EXPORTER", "none")])
async def test_the_users_off_switches_are_obeyed(rings, receiver, monkeypatch, name, value):
    monkeypatch.setenv(name, value)
    async with receiver() as received:
        app = await tell(rings, received, l2_read, 0)
    assert app.spanning.state == "off"
