"""GET /metrics."""

import asyncio
import time

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families

from hicache_exporter import names
from hicache_exporter.server import MAX_SCRAPES
from hicache_exporter.sources.targets import parse_target
from hicache_tracing.records import ContentMode, Kind

from ..engine.faulty import FaultyEngine
from ..scribe import RingFile
from .exposition import series

OPENMETRICS = "application/openmetrics-text;version=1.0.0;q=0.75,text/plain;version=0.0.4;q=0.5,*/*;q=0.1"


async def scrape(client, accept=None, **query):
    headers = {"Accept": accept} if accept else {}
    async with client.get("/metrics", headers=headers, params=query) as answer:
        assert answer.status == 200
        return await answer.text()


async def test_known_series_are_there_with_zero_before_anything_happens(sidecar, rings):
    """increase() does not see the jump of a series that appears with its first value."""
    RingFile(rings)
    async with sidecar() as client:
        found = series(await scrape(client))
    for tier in names.ALL_TIERS:
        assert found[f"hicache_hit_tokens_total{{tier={tier}}}"] == 0
    for verdict in names.VERDICTS:
        assert found[f"hicache_verdicts_total{{verdict={verdict}}}"] == 0
    for outcome in names.OUTCOMES:
        assert found[f"hicache_load_backs_total{{outcome={outcome}}}"] == 0
    for direction in names.DIRECTIONS:
        assert found[f"hicache_transfer_tokens_total{{direction={direction}}}"] == 0
        assert found[f"hicache_transfer_seconds_count{{direction={direction}}}"] == 0
    assert found["hicache_recorder_up{rank=tp0}"] == 1


async def test_an_l2_read_is_seen_in_every_family_that_tells_of_it(sidecar, rings):
    written = RingFile(rings)
    async with sidecar() as client:
        written.now_ns = time.monotonic_ns()
        written.cold_request("a", node=7)
        written.demote(7, 300)
        written.host_request("c", node=7)
        written.write(Kind.CONTENT, transfer_id=100, checked=299, mode=ContentMode.FULL, layers=4)
        found = series(await scrape(client))
    assert found["hicache_hit_tokens_total{tier=host}"] == 299
    assert found["hicache_hit_difference_tokens_total{kind=unplaced}"] == 0
    assert found["hicache_hit_difference_tokens_total{kind=surplus}"] == 0
    assert found["hicache_computed_tokens_total"] == 301
    assert found["hicache_prompt_tokens_total"] == 600
    assert found["hicache_requests_total{tier=host}"] == 1
    assert found["hicache_ttft_seconds_count{tier=host}"] == 1
    assert found["hicache_ttft_seconds_bucket{le=0.015,tier=host}"] == 0
    assert found["hicache_ttft_seconds_bucket{le=0.02,tier=host}"] == 1
    assert found["hicache_transfers_total{direction=host_to_device}"] == 1
    assert found["hicache_transfer_tokens_total{direction=host_to_device}"] == 299
    assert found["hicache_transfer_bytes_total{direction=host_to_device}"] == 299 * 512
    assert found["hicache_evicted_tokens_total{cause=demoted}"] == 300
    assert found["hicache_load_backs_total{outcome=loaded}"] == 1
    assert found["hicache_load_back_loaded_tokens_total"] == 299
    assert found["hicache_l2_reuse_gap_seconds_count"] == 1
    assert found["hicache_verdicts_total{verdict=corroborated}"] == 1
    assert found["hicache_verdicts_total{verdict=no_read}"] == 1
    assert found["hicache_content_checks_total{content=intact}"] == 1
    assert found["hicache_content_tokens_total{state=matched}"] == 299


async def test_logical_tokens_come_from_the_leading_rank_and_bytes_from_all(sidecar, rings):
    from ..scribe import IDENTITY

    written = [RingFile(rings, identity={**IDENTITY, "tp_size": 2, "tp_rank": rank}) for rank in (0, 1)]
    async with sidecar() as client:
        for ring in written:
            ring.now_ns = time.monotonic_ns()
            ring.host_request("c")
        found = series(await scrape(client))
    assert found["hicache_hit_tokens_total{tier=host}"] == 299
    assert found["hicache_transfer_tokens_total{direction=host_to_device}"] == 299
    assert found["hicache_transfer_bytes_total{direction=host_to_device}"] == 2 * 299 * 512
    assert found["hicache_recorder_up{rank=tp1}"] == 1
    assert sum(found[f"hicache_verdicts_total{{verdict={verdict}}}"] for verdict in names.VERDICTS) == 1


async def test_data_parallel_groups_add_up(sidecar, rings):
    from ..scribe import IDENTITY

    written = [RingFile(rings, identity={**IDENTITY, "dp_size": 2, "dp_rank": rank}) for rank in (0, 1)]
    async with sidecar() as client:
        for ring in written:
            ring.now_ns = time.monotonic_ns()
            ring.host_request("c")
        found = series(await scrape(client))
    assert found["hicache_hit_tokens_total{tier=host}"] == 598


async def test_a_killed_engine_loses_its_series_in_the_very_next_scrape(sidecar, rings, tmp_path):
    import subprocess
    import sys

    process = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    written = RingFile(rings, pid=process.pid)
    async with sidecar() as client:
        written.now_ns = time.monotonic_ns()
        written.host_request("c")
        before = series(await scrape(client))
        process.kill()
        process.wait()
        process.stdin.close()
        await asyncio.sleep(0.15)
        after = series(await scrape(client))
        again = RingFile(rings)
        again.host_request("d")
        await asyncio.sleep(0.15)
        back = series(await scrape(client))
    assert before["hicache_hit_tokens_total{tier=host}"] == 299
    assert after["hicache_recorder_up{rank=tp0}"] == 0
    assert not [name for name in after if name.startswith(("hicache_hit", "hicache_requests", "hicache_verdicts"))]
    assert back["hicache_recorder_up{rank=tp0}"] == 1
    assert back["hicache_hit_tokens_total{tier=host}"] == 598


async def test_a_fact_is_on_metrics_within_250_milliseconds(sidecar, rings):
    written = RingFile(rings)
    async with sidecar() as client:
        await scrape(client)
        written.now_ns = time.monotonic_ns()
        written.cold_request("a")
        began = time.monotonic()
        while series(await scrape(client)).get("hicache_requests_total{tier=none}") != 1:
            assert time.monotonic() - began < 0.25


async def test_refused_files_are_told_by_reason(sidecar, rings):
    (rings / "1-1.ring").write_bytes(b"no ring")
    (rings / "1-1.ring").chmod(0o600)
    async with sidecar() as client:
        found = series(await scrape(client))
    assert found["hicache_recorder_rings_refused{reason=truncated}"] == 1
    assert found["hicache_recorder_rings_refused{reason=symlink}"] == 0


async def test_a_collector_that_fails_costs_only_itself(sidecar, rings):
    class Broken:
        def collect(self):
            yield from ()
            raise RuntimeError("broken on purpose")

    RingFile(rings)
    async with sidecar() as client:
        client.sidecar.registry.register("broken", Broken())
        found = series(await scrape(client))
    assert found["hicache_collector_success{collector=broken}"] == 0
    assert found["hicache_collector_success{collector=hits}"] == 1
    assert found["hicache_hit_tokens_total{tier=host}"] == 0
    assert found["hicache_collector_duration_seconds{collector=broken}"] >= 0


async def test_collect_chooses_collectors(sidecar, rings):
    RingFile(rings)
    async with sidecar() as client:
        found = series(await scrape(client, **{"collect[]": "recorder"}))
        assert {name.partition("{")[0] for name in found if "collector=" in name or "hit" in name} == {
            "hicache_collector_success",
            "hicache_collector_duration_seconds",
        }
        async with client.get("/metrics", params={"collect[]": "nonsense"}) as answer:
            assert answer.status == 400
            assert "no collector nonsense" in await answer.text()


@pytest.mark.parametrize(
    ("accept", "content_type"),
    [
        (None, "text/plain; version=0.0.4; charset=utf-8"),
        ("text/plain;version=0.0.4", "text/plain; version=0.0.4; charset=utf-8"),
        ("text/plain;version=1.0.0", "text/plain; version=1.0.0; charset=utf-8"),
        (OPENMETRICS, "application/openmetrics-text; version=1.0.0; charset=utf-8"),
    ],
)
async def test_the_format_is_the_one_asked_for(sidecar, rings, accept, content_type):
    RingFile(rings)
    async with sidecar() as client, client.get("/metrics", headers={"Accept": accept} if accept else {}) as answer:
        assert answer.headers["Content-Type"].startswith(content_type)
        text = await answer.text()
    assert text.endswith("# EOF\n") == ("openmetrics" in content_type)
    assert series(text, openmetrics="openmetrics" in content_type)


async def test_openmetrics_carries_exemplars_with_the_trace_of_the_request(sidecar, rings):
    written = RingFile(rings)
    async with sidecar() as client:
        written.now_ns = time.monotonic_ns()
        written.lookup("c", 300)
        written.admit("c", 300)
        written.write(Kind.TRACE, "c", trace_id_high=0, trace_id_low=0xABC, span_id=5, sampled=1)
        written.first_token("c")
        text = await scrape(client, OPENMETRICS)
        plain = await scrape(client)
    exemplars = [
        sample.exemplar
        for family in text_string_to_metric_families(text)
        if family.name == "hicache_ttft_seconds"
        for sample in family.samples
        if sample.exemplar
    ]
    assert [exemplar.labels for exemplar in exemplars] == [{"trace_id": f"{0xABC:032x}"}]
    assert exemplars[0].value == pytest.approx(0.020)
    assert "trace_id" not in plain


async def test_answers_are_compressed_when_that_is_asked_for(sidecar, rings):
    RingFile(rings)
    async with sidecar() as client:
        async with client.get("/metrics", headers={"Accept-Encoding": "gzip"}) as answer:
            assert answer.headers["Content-Encoding"] == "gzip"
            assert "hicache_hit_tokens_total" in await answer.text()
        async with client.get("/metrics", headers={"Accept-Encoding": "identity"}) as answer:
            assert "Content-Encoding" not in answer.headers


async def test_too_many_scrapes_at_once_are_turned_away_and_counted(sidecar, rings):
    async with sidecar() as client:
        gate = asyncio.Event()

        async def slow(only, seconds):
            await gate.wait()
            return []

        real, client.sidecar.scrape = client.sidecar.scrape, slow
        waiting = [asyncio.create_task(client.get("/metrics")) for _ in range(MAX_SCRAPES)]
        await asyncio.sleep(0.1)
        async with client.get("/metrics") as answer:
            assert (answer.status, answer.headers["Retry-After"]) == (503, "1")
        gate.set()
        for answer in await asyncio.gather(*waiting):
            assert answer.status == 200
            await answer.release()
        client.sidecar.scrape = real
        assert series(await scrape(client))["hicache_scrapes_refused_total"] == 1


async def test_the_scrapers_deadline_is_kept(sidecar, rings):
    async with sidecar() as client:
        asked = []

        async def scrape_with(only, seconds):
            asked.append(seconds)
            return []

        client.sidecar.scrape = scrape_with
        await (await client.get("/metrics", headers={"X-Prometheus-Scrape-Timeout-Seconds": "3"})).release()
        await (await client.get("/metrics")).release()
    assert 2.4 < asked[0] < 3
    assert asked[1] > 0


async def test_an_engine_that_never_answers_costs_no_more_than_the_scraper_waits(sidecar, rings):
    good, slow = FaultyEngine("good"), FaultyEngine("slow")
    RingFile(rings)
    async with good.running(), slow.running():
        engines = tuple(parse_target(engine.address) for engine in (good, slow))
        async with sidecar(engines=engines) as client:
            began = time.monotonic()
            headers = {"X-Prometheus-Scrape-Timeout-Seconds": "4"}
            async with client.get("/metrics", headers=headers) as answer:
                text = await answer.text()
            took = time.monotonic() - began
    assert took < 4
    assert f'hicache_engine_up{{engine="{good.address}"}} 1.0' in text
    assert f'hicache_engine_up{{engine="{slow.address}"}} 0.0' in text
    assert f'hicache_engine_cached_tokens_total{{engine="{good.address}",tier="host"}}' in text


async def test_long_headers_and_addresses_are_refused(sidecar, rings):
    async with sidecar() as client:
        async with client.get("/metrics", headers={"X-Long": "x" * 20000}) as answer:
            assert answer.status == 400
        async with client.get("/proofs/" + "x" * 20000) as answer:
            assert answer.status == 400


async def test_no_other_method_is_served(sidecar, rings):
    async with sidecar() as client:
        for path in ("/metrics", "/proofs", "/"):
            async with client.post(path, data=b"x") as answer:
                assert answer.status == 405
        async with client.get("/nothing-here") as answer:
            assert answer.status == 404


async def test_every_sample_is_of_a_family_that_names_lists_with_its_labels(sidecar, rings):
    RingFile(rings).host_request("c")
    async with sidecar() as client:
        text = await scrape(client, OPENMETRICS)
    for family in text_string_to_metric_families(text):
        listed = names.FAMILIES[family.name]
        assert (family.type, family.documentation) == (listed.type, listed.help)
        for sample in family.samples:
            labels = set(sample.labels) - {"le", "engine"}
            assert labels == set(listed.labels) - {"engine"}, sample


async def test_seams_are_told_unless_another_class_of_this_engine_has_the_function(sidecar, rings):
    from hicache_tracing.records import SeamState

    from ..scribe import SEAMS

    written = RingFile(rings)
    states = dict.fromkeys(SEAMS, SeamState.ATTACHED)
    states["HiRadixCache.init_load_back"] = SeamState.PENDING
    states["UnifiedRadixCache._demote"] = SeamState.MISSING
    states["PrefillAdder.add_one_req"] = SeamState.TRIPPED
    written.seams(states, faults=5)
    async with sidecar() as client:
        found = series(await scrape(client))
    told = {name.partition("seam=")[2].rstrip("}") for name in found if name.startswith("hicache_seam_state")}
    assert "UnifiedRadixCache._demote,state=missing" in told
    assert "PrefillAdder.add_one_req,state=tripped" in told
    assert not [seam for seam in told if seam.startswith("HiRadixCache")]
    assert found["hicache_seam_faults_total{rank=tp0,seam=PrefillAdder.add_one_req}"] == 5
    assert "hicache_seam_fired{rank=tp0,seam=UnifiedRadixCache._demote}" not in found


async def test_a_fault_in_reading_engines_shows_nothing_old(sidecar, rings):
    from hicache_exporter.sources.targets import parse_target

    RingFile(rings)
    async with sidecar(engines=(parse_target("127.0.0.1:30000"),)) as client:
        assert series(await scrape(client))["hicache_engine_up"] == 0

        async def broken(seconds):
            raise RuntimeError("broken on purpose")

        client.sidecar.engines.refresh = broken
        found = series(await scrape(client))
    assert "hicache_engine_up" not in found
    assert found["hicache_collector_success{collector=engine}"] == 0
    assert found["hicache_hit_tokens_total{tier=host}"] == 0
