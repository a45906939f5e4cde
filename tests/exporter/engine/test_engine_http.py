"""Reading engines over HTTP: every fault has a name, costs only itself, and betrays nothing."""

from __future__ import annotations

import asyncio
import gc
import logging
import socket
import time

import pytest

from hicache_exporter.core import engine_report
from hicache_exporter.core.engine_reading import REASONS
from hicache_exporter.core.engine_text import EngineText
from hicache_exporter.sources import engine_client, engine_http
from hicache_exporter.sources.bearer import Bearer, TokenError
from hicache_exporter.sources.targets import Targets

from .faulty import FaultyEngine
from .samples import PLANTED

FAULTS = {
    "slow": "timeout",
    "stalls": "timeout",
    "cut": "truncated",
    "cut_chunks": "truncated",
    "cut_line": "truncated",
    "drops": "broken",
    "redirects": "redirect",
    "redirects_to_itself": "redirect",
    "empty": "empty",
    "blank": "empty",
    "login_page": "not_metrics",
    "other_program": "not_metrics",
    "json": "not_metrics",
    "huge": "too_large",
    "gzip_bomb": "too_large",
    "false_gzip": "decode",
    "latin1": "decode",
    "utf16": "decode",
    "not_found": "not_found",
    "busy": "http_5xx",
    "teapot": "http_4xx",
    "no_content": "http_other",
}


async def refreshed(engines, seconds=2.0):
    (report,) = await engines.refresh(seconds)
    return report


@pytest.mark.parametrize("mode", ["good", "gzipped", "chunked", "mistyped"])
async def test_a_good_answer_however_it_is_sent(world, mode):
    engine = await world.start(FaultyEngine(mode))
    report = await refreshed(await world.read(engine.address))
    assert report.reading.up
    assert report.reading.reason is None
    assert report.reading.info.tp_size == 1
    assert 0 < report.reading.seconds < 2
    assert len(report.values) > 40


@pytest.mark.parametrize("mode", FAULTS)
async def test_every_fault_has_its_reason_and_leaves_no_number(world, mode):
    engine = await world.start(FaultyEngine(mode))
    report = await refreshed(await world.read(engine.address), 0.3 if FAULTS[mode] == "timeout" else 5.0)
    assert (report.reading.up, report.reading.reason) == (False, FAULTS[mode])
    assert report.values == ()
    assert report.failures == {**dict.fromkeys(REASONS, 0), FAULTS[mode]: 1}


async def test_an_engine_that_goes_and_comes_back_is_two_lines_in_the_log_whatever_is_scraped(world, caplog):
    caplog.set_level(logging.INFO, logger=engine_client.__name__)
    engine = await world.start(FaultyEngine("good"))
    engines = await world.read(engine.address)
    for mode in ("good", "busy", "busy", "not_found", "good", "good"):
        engine.mode = mode
        await refreshed(engines)
    told = [(record.levelname, record.getMessage()) for record in caplog.records if "server_info" not in record.msg]
    assert [level for level, _ in told] == ["WARNING", "INFO"]
    assert f"engine {engine.address} can't be read: http_5xx" in told[0][1]
    assert f"engine {engine.address} is read again" in told[1][1]


async def test_nobody_there(world):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{free.getsockname()[1]}"
    report = await refreshed(await world.read(address))
    assert report.reading.reason == "refused"


async def test_a_name_that_does_not_resolve(world):
    report = await refreshed(await world.read("no-such-host.invalid:30000"), 5.0)
    assert report.reading.reason == "unreachable"


async def test_plain_http_where_tls_is_expected(world):
    engine = await world.start(FaultyEngine())
    report = await refreshed(await world.read(f"https://{engine.address}"))
    assert report.reading.reason == "tls"


async def test_no_redirect_is_followed(world):
    engine = await world.start(FaultyEngine("redirects"))
    await refreshed(await world.read(engine.address))
    assert "/login" not in engine.asked


# -- one engine and the others --------------------------------------------------------------------------------------
async def test_a_dead_and_a_slow_engine_neither_delay_nor_empty_the_others(world):
    first, second = await world.start(FaultyEngine()), await world.start(FaultyEngine())
    slow, stalled = await world.start(FaultyEngine("slow")), await world.start(FaultyEngine("stalls"))
    dead = "127.0.0.1:1"
    engines = await world.read(first.address, slow.address, dead, stalled.address, second.address)
    started = time.monotonic()
    reports = await engines.refresh(1.0)
    assert time.monotonic() - started < 1.5
    assert [r.reading.reason for r in reports] == [None, "timeout", "refused", "timeout", None]
    assert all(r.reading.seconds < 0.9 for r in reports if r.reading.up)
    assert all(len(r.values) > 40 for r in reports if r.reading.up)


async def test_a_stalled_engine_delays_one_scrape_and_not_all_that_follow(world):
    good, stalled = await world.start(FaultyEngine()), await world.start(FaultyEngine("stalls"))
    engines = await world.read(good.address, stalled.address)
    times = []
    for _ in range(3):
        started = time.monotonic()
        reports = await engines.refresh(1.5)
        times.append(time.monotonic() - started)
        assert [r.reading.reason for r in reports] == [None, "timeout"]
    assert times[0] > 1.4
    assert max(times[1:]) < 1.0
    stalled.mode = "good"
    await asyncio.sleep(1.0)  # its read of the second scrape has its own end
    assert [r.reading.reason for r in await engines.refresh(1.5)] == [None, None]
    assert engines.reports[1].failures["timeout"] == 3  # one a scrape, and not one more when the read itself ends
    stalled.mode = "late"  # but in time, and it has its full time again
    assert [r.reading.reason for r in await engines.refresh(1.5)] == [None, None]


async def test_a_dead_engine_is_not_asked_for_more_and_not_spoken_of_again_and_again(world, caplog):
    engine = await world.start(FaultyEngine("busy"))
    engine.info_mode = "denied"
    engines = await world.read(engine.address)
    with caplog.at_level(logging.INFO, "hicache_exporter"):
        await refreshed(engines)
        assert engine.asked["/server_info"] == 0
        engine.mode = "good"
        for _ in range(3):
            await refreshed(engines)
            next(iter(engines._clients.values())).forget_info()
    assert engine.asked["/server_info"] == 3
    told = [record.message for record in caplog.records if "server_info" in record.message]
    assert told == [f"engine {engine.address}: no /server_info: unauthorized"]


async def test_an_engine_that_comes_back_is_read_again(world):
    engine = await world.start(FaultyEngine("busy"))
    engines = await world.read(engine.address)
    assert not (await refreshed(engines)).reading.up
    engine.mode = "good"
    report = await refreshed(engines)
    assert report.reading.up
    assert report.failures["http_5xx"] == 1


async def test_a_fault_of_ours_costs_that_engine_alone(world, monkeypatch, caplog):
    good, odd = await world.start(FaultyEngine()), await world.start(FaultyEngine())
    odd.text += 'sglang:num_queue_reqs{tp_rank="9"} 1\n'
    engines = await world.read(good.address, odd.address)
    await engines.refresh(2.0)
    take = engine_report.view

    def fails(text, info, tree):
        assert not any(sample.labels["tp_rank"] == "9" for sample in text.of("num_queue_reqs"))
        return take(text, info)

    monkeypatch.setattr(engine_report, "view", fails)
    reports = await engines.refresh(2.0)
    assert [r.reading.reason for r in reports] == [None, "internal"]
    assert reports[1].values == ()
    assert "AssertionError" in caplog.text


async def test_an_engine_that_stalled_is_asked_anew_at_the_next_scrape(world):
    engine = await world.start(FaultyEngine("stalls"))
    engines = await world.read(engine.address)
    assert (await refreshed(engines, 0.2)).reading.reason == "timeout"
    engine.mode = "good"
    assert (await refreshed(engines)).reading.up


async def test_scrapes_that_overlap_ask_the_engine_once(world):
    engine = await world.start(FaultyEngine())
    engines = await world.read(engine.address)
    await asyncio.gather(*(engines.refresh(2.0) for _ in range(5)))
    assert engine.asked["/metrics"] == 1


async def test_scrapes_that_overlap_count_a_failure_once(world):
    engine = await world.start(FaultyEngine("busy"))
    engines = await world.read(engine.address)
    await asyncio.gather(*(engines.refresh(2.0) for _ in range(5)))
    (report,) = engines.reports
    assert (engine.asked["/metrics"], report.failures["http_5xx"]) == (1, 1)


async def test_a_restart_in_place(world):
    engine = FaultyEngine()
    async with engine.running():
        port = int(engine.address.rpartition(":")[2])
        engines = await world.read(engine.address)
        before = await refreshed(engines)
    assert (await refreshed(engines)).reading.reason == "refused"
    engine.text = engine.text.replace("sglang:load_back_tokens_total", "sglang:gone").replace('pid="', 'pid="9')
    async with engine.running(port):
        after = await refreshed(engines)
    assert (before.restarts, after.restarts) == (0, 1)
    tracker = engines.tracker(engine.address)
    assert tracker.counters.total("hicache_engine_load_back_tokens") == 1196
    assert tracker.counters.total("hicache_engine_cached_tokens", ("host",)) == 2 * 598


async def test_an_engine_that_was_gone_is_asked_again_what_it_is(world):
    """Without marks of a run (old engines in containers) this is how other ranks are noticed."""
    engine = FaultyEngine()
    async with engine.running():
        port = int(engine.address.rpartition(":")[2])
        engines = await world.read(engine.address)
        await refreshed(engines)
    await refreshed(engines)
    engine.info_changes = {"tp_size": 8}
    async with engine.running(port):
        report = await refreshed(engines)
        assert report.restarts == 0
        assert report.reading.info.tp_size == 8


async def test_targets_that_leave_the_file_leave_the_report(world, tmp_path):
    first, second = await world.start(FaultyEngine()), await world.start(FaultyEngine("slow"))
    file = tmp_path / "targets.json"
    file.write_text(f'[{{"targets": ["{first.address}", "{second.address}"]}}]')
    engines = await world.watch(Targets(files=[file]))
    assert len(await engines.refresh(0.3)) == 2
    file.write_text(f'[{{"targets": ["{first.address}"], "labels": {{"zone": "a"}}}}]')
    (report,) = await engines.refresh(1.0)
    assert report.reading.engine == first.address
    assert engines.tracker(second.address) is None


# -- /server_info ---------------------------------------------------------------------------------------------------
async def test_server_info_is_asked_rarely(world):
    engine = await world.start(FaultyEngine())
    engines = await world.read(engine.address)
    for _ in range(5):
        assert (await refreshed(engines)).reading.info is not None
    assert (engine.asked["/metrics"], engine.asked["/server_info"]) == (5, 1)


async def test_server_info_is_asked_again_after_its_time(world, monkeypatch):
    monkeypatch.setattr(engine_client, "INFO_EVERY", 0.0)
    engine = await world.start(FaultyEngine())
    engines = await world.read(engine.address)
    await refreshed(engines)
    engine.info_changes = {"tp_size": 8}
    await refreshed(engines)
    await asyncio.sleep(0.1)
    assert (await refreshed(engines)).reading.info.tp_size == 8


async def test_server_info_is_asked_again_after_a_restart(world):
    engine = await world.start(FaultyEngine())
    engines = await world.read(engine.address)
    await refreshed(engines)
    engine.info_changes = {"tp_size": 8}
    engine.text = engine.text.replace('pid="', 'pid="9').replace('phase="load_weight"} 0', 'phase="load_weight"} 7')
    assert (await refreshed(engines)).restarts == 1
    assert (await refreshed(engines)).reading.info.tp_size == 8


async def test_the_old_address_of_server_info_serves_too(world):
    engine = await world.start(FaultyEngine())
    engine.info_mode = "old"
    assert (await refreshed(await world.read(engine.address))).reading.info.version == "0.5.23"


@pytest.mark.parametrize("mode", ["slow", "nonsense", "denied"])
async def test_a_bad_server_info_costs_the_scrape_next_to_nothing(world, mode):
    engine = await world.start(FaultyEngine())
    engine.info_mode = mode
    engines = await world.read(engine.address)
    started = time.monotonic()
    report = await refreshed(engines, 5.0)
    assert time.monotonic() - started < 1.2
    assert report.reading.up
    assert report.reading.info is None
    await refreshed(engines)
    assert engine.asked["/server_info"] == 1  # not hammered


async def test_a_server_info_that_never_comes_is_given_up_and_asked_for_again(world, monkeypatch):
    monkeypatch.setattr(engine_client, "INFO_TIMEOUT", 0.1)
    monkeypatch.setattr(engine_client, "INFO_RETRY", 0.0)
    engine = await world.start(FaultyEngine())
    engine.info_mode = "slow"
    engines = await world.read(engine.address)
    await refreshed(engines)
    engine.info_mode = "good"
    assert (await refreshed(engines)).reading.info is not None


async def test_a_busy_scheduler_does_not_cost_what_was_known(world, monkeypatch):
    monkeypatch.setattr(engine_client, "INFO_EVERY", 0.0)
    engine = await world.start(FaultyEngine())
    engines = await world.read(engine.address)
    await refreshed(engines)
    engine.info_mode = "slow"
    started = time.monotonic()
    assert (await refreshed(engines)).reading.info is not None
    assert time.monotonic() - started < 0.4


async def test_the_api_keys_in_server_info_go_nowhere(world, caplog, capsys):
    from prometheus_client import CollectorRegistry
    from prometheus_client.openmetrics.exposition import generate_latest

    from hicache_exporter.collectors.engine import EngineCollector

    pages = []
    with caplog.at_level(logging.DEBUG):
        for mode in ("good", "nonsense"):
            engine = await world.start(FaultyEngine())
            engine.info_mode = mode
            engines = await world.read(engine.address)
            report = await refreshed(engines)
            registry = CollectorRegistry()
            registry.register(EngineCollector(lambda reports=(report,): reports))
            pages += [repr(report), repr(vars(engines)), generate_latest(registry).decode()]
    everything = "".join(pages) + caplog.text + "".join(capsys.readouterr())
    assert "hicache_engine_info" in everything
    assert "no /server_info" in caplog.text
    assert not [key for key in PLANTED if key in everything]


# -- the token ------------------------------------------------------------------------------------------------------
async def test_an_engine_that_needs_a_token_gets_it(world, tmp_path):
    engine = FaultyEngine()
    engine.token = "open-sesame"
    await world.start(engine)
    assert (await refreshed(await world.read(engine.address))).reading.reason == "unauthorized"
    (tmp_path / "token").write_text("open-sesame\n")
    report = await refreshed(await world.read(engine.address, bearer=Bearer(file=tmp_path / "token")))
    assert report.reading.up
    assert report.reading.info is not None


async def test_a_rotated_token_file_needs_no_restart(world, tmp_path):
    engine = FaultyEngine()
    engine.token = "new"
    await world.start(engine)
    (tmp_path / "token").write_text("old")
    engines = await world.read(engine.address, bearer=Bearer(file=tmp_path / "token"))
    assert (await refreshed(engines)).reading.reason == "unauthorized"
    (tmp_path / "token").write_text("new")
    assert (await refreshed(engines)).reading.up


async def test_a_token_from_the_environment(world, monkeypatch):
    engine = FaultyEngine()
    engine.token = "open-sesame"
    await world.start(engine)
    monkeypatch.setenv("ENGINE_TOKEN", "open-sesame")
    assert (await refreshed(await world.read(engine.address, bearer=Bearer(variable="ENGINE_TOKEN")))).reading.up


async def test_without_its_token_the_engine_is_not_even_asked_and_the_log_names_the_file(world, tmp_path, caplog):
    engine = await world.start(FaultyEngine())
    report = await refreshed(await world.read(engine.address, bearer=Bearer(file=tmp_path / "gone")))
    assert report.reading.reason == "no_token"
    assert engine.asked["/metrics"] == 0
    assert f"can't be read: no_token (the token file {tmp_path / 'gone'});" in caplog.text


@pytest.mark.parametrize("content", ["", "  \n", "two\nlines", "ключ"])
def test_a_token_that_can_not_be_sent_is_refused_without_being_shown(tmp_path, content):
    (tmp_path / "token").write_text(content)
    with pytest.raises(TokenError) as caught:
        Bearer(file=tmp_path / "token").headers()
    assert content.strip() == "" or content.strip() not in str(caught.value)


async def test_the_token_is_in_no_log_and_no_repr(world, tmp_path, caplog):
    engine = FaultyEngine()
    engine.token = "open-sesame"
    await world.start(engine)
    (tmp_path / "token").write_text("open-sesame")
    with caplog.at_level(logging.DEBUG):
        engines = await world.read(engine.address, bearer=Bearer(file=tmp_path / "token"))
        report = await refreshed(engines)
        engine.mode = "busy"
        failed = await refreshed(engines)
    assert "open-sesame" not in caplog.text + repr(report) + repr(failed) + repr(vars(engines))


async def test_plain_text_is_asked_for_first(world):
    engine = await world.start(FaultyEngine())
    await refreshed(await world.read(engine.address))
    accept = engine.headers_seen[0]["Accept"]
    assert accept.startswith("text/plain;version=0.0.4")
    assert accept == engine_http.ACCEPT


async def test_closing_waits_for_no_engine(world):
    engine = await world.start(FaultyEngine())
    engine.info_mode = "slow"
    engines = await world.read(engine.address)
    await refreshed(engines)
    started = time.monotonic()
    await engines.close()
    assert time.monotonic() - started < 0.5


async def test_a_read_that_nobody_waited_for_is_not_passed_off_as_new(world):
    engine = await world.start(FaultyEngine())
    engines = await world.read(engine.address)
    await refreshed(engines)
    (client,) = engines._clients.values()
    given_up = asyncio.create_task(client.read(2.0))
    await asyncio.sleep(0)
    given_up.cancel()
    await asyncio.sleep(0.2)  # the read itself goes on and ends
    asked = engine.asked["/metrics"]
    assert asked == 2
    assert (await client.read(2.0)).reading.up
    assert engine.asked["/metrics"] == asked + 1


async def test_no_text_is_kept_between_scrapes(world):
    engine = await world.start(FaultyEngine())
    engines = await world.read(engine.address)
    report = await refreshed(engines)
    assert report.reading.text is None
    gc.collect()  # what another test left in a cycle is not meant
    assert [text for text in gc.get_objects() if isinstance(text, EngineText)] == []
