"""The live page: complete, from here only, and harmless whatever an engine is called."""

import asyncio
import logging
import re
import subprocess
import sys
import time
from datetime import datetime
from importlib.resources import files

import pytest

from hicache_exporter.sources.targets import parse_target

from ..engine.faulty import FaultyEngine
from ..engine.samples import PLANTED
from ..scribe import IDENTITY, RingFile

PAGE = files("hicache_exporter").joinpath("page")
ASSETS = sorted(file.name for file in PAGE.iterdir() if file.name.endswith((".js", ".css")))
SVG_NAMESPACE = "http://www.w3.org/2000/svg"


async def test_the_page_and_all_that_it_needs_are_served(sidecar, rings):
    async with sidecar() as client:
        async with client.get("/") as answer:
            assert answer.headers["Content-Type"] == "text/html; charset=utf-8"
            html = await answer.text()
        wanted = set(re.findall(r'(?:href|src)="(page/[^"]+)"', html))
        for name in ASSETS:
            async with client.get(f"/page/{name}") as answer:
                assert answer.status == 200
                kind = "text/css" if name.endswith("css") else "text/javascript"
                assert answer.headers["Content-Type"] == f"{kind}; charset=utf-8"
                wanted |= {f"page/{module}" for module in re.findall(r'from "\./([^"]+)"', await answer.text())}
    assert wanted == {f"page/{name}" for name in ASSETS}


async def test_the_browser_may_load_nothing_from_elsewhere(sidecar, rings):
    async with sidecar() as client, client.get("/") as answer:
        policy = answer.headers["Content-Security-Policy"]
    assert policy.startswith("default-src 'none';")
    assert "unsafe" not in policy


@pytest.mark.parametrize("name", ["index.html", *ASSETS])
def test_no_file_names_an_outside_address_or_writes_html_from_text(name):
    text = PAGE.joinpath(name).read_text("utf-8").replace(SVG_NAMESPACE, "")
    assert not re.search(r"https?://|//[a-z]+\.", text)
    assert not re.search(r"innerHTML|outerHTML|insertAdjacent|document\.write|eval\(|style=", text)


def test_the_legend_explains_every_sign_of_a_witness():
    (glyphs,) = re.findall(r"GLYPHS = \{(.*)\};", PAGE.joinpath("proofs.js").read_text("utf-8"))
    legend = PAGE.joinpath("index.html").read_text("utf-8")
    signs = re.findall(r'(\w+): "(.)"', glyphs)
    assert {"supports", "contradicts", "none", "silent", "absent"} == {stance for stance, _ in signs}
    for stance, sign in signs:
        assert f'<span class="stance {stance}">{sign}</span>' in legend


@pytest.mark.parametrize("path", ["/page/nothing.js", "/page/..%2Findex.html", "/page/__init__.py", "/page/index.html"])
async def test_nothing_else_of_the_package_is_served(sidecar, rings, path):
    from yarl import URL

    async with sidecar() as client, client.get(URL(path, encoded=True)) as answer:
        assert answer.status == 404


@pytest.mark.parametrize("path", ["/proof", "/metrics/", "/api/v1/query", "/page/nothing.js"])
async def test_what_is_not_there_is_told_in_json_with_what_there_is(sidecar, rings, path):
    async with sidecar() as client, client.get(path) as answer:
        assert (answer.status, answer.content_type) == (404, "application/json")
        told = (await answer.json())["error"]
    assert told.startswith(f"there is no {path} here")
    assert "/proofs/REQUEST_ID" in told


async def test_what_can_only_be_read_is_told_in_json(sidecar, rings):
    async with sidecar() as client, client.post("/metrics") as answer:
        assert (answer.status, answer.content_type) == (405, "application/json")
        assert "GET" in answer.headers["Allow"]
        assert "can only be read" in (await answer.json())["error"]


async def test_the_state_tells_tiers_recorders_and_verdicts_with_their_witnesses(sidecar, rings):
    RingFile(rings, identity={**IDENTITY, "served_model_name": "<script>alert(1)</script>"}).host_request("<b>c</b>")
    async with sidecar() as client, client.get("/state") as answer:
        assert answer.content_type == "application/json"
        assert answer.headers["X-Content-Type-Options"] == "nosniff"
        state = await answer.json()
    (engine,) = state["engines"]
    assert (engine["engine"], engine["up"], engine["model"]) == ("127.0.0.1:30000", None, "<script>alert(1)</script>")
    assert engine["capacity_tokens"] == {"device": 1000, "host": 4000}
    assert engine["used_tokens"] is None
    assert [(one["rank"], one["up"], one["watching"], one["lost"]) for one in engine["recorders"]] == [
        ("tp0", True, True, 0)
    ]
    (proof,) = state["proofs"]
    assert (proof["request_id"], proof["served_by"]) == ("<b>c</b>", "host")
    assert {witness["name"]: witness["stance"] for witness in proof["witnesses"]}["transfer"] == "supports"


async def test_what_was_recorded_of_an_engine_that_ended_stays_with_who_it_was(sidecar, rings):
    process = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    written = RingFile(rings, pid=process.pid)
    async with sidecar() as client:
        written.now_ns = time.monotonic_ns()
        written.host_request("c")
        await state_of(client)
        process.kill()
        process.wait()
        process.stdin.close()
        await asyncio.sleep(0.15)
        ended = await state_of(client)
        written.path.unlink()
        await asyncio.sleep(0.15)
        gone = await state_of(client)
    for told in (ended, gone):
        (engine,) = told["engines"]
        assert (engine["recorded"], engine["model"], engine["recorders"]) == ("before", "tiny", [])
        assert engine["counted"]["requests"]["host"] == 1
        assert [proof["request_id"] for proof in told["proofs"]] == ["c"]


async def test_an_engine_that_nobody_records_tells_the_sizes_of_its_tiers_itself(sidecar, rings):
    engine = FaultyEngine("good")
    async with engine.running(0), sidecar(engines=(parse_target(engine.address),)) as client:
        (card,) = (await state_of(client))["engines"]
    assert (card["up"], card["recorded"], card["counted"]) == (True, "never", None)
    assert card["capacity_tokens"]["device"] > 0


async def test_no_key_of_an_engine_is_on_any_page_or_in_the_log(sidecar, rings, caplog):
    """Its /server_info is full of them."""
    written, engine = RingFile(rings), FaultyEngine("good")
    with caplog.at_level(logging.DEBUG):
        async with engine.running(0), sidecar(engines=(parse_target(engine.address),)) as client:
            written.cold_request("a")
            pages = []
            for path in ("/", "/metrics", "/state", "/proofs", "/proofs/a", "/proofs/nobody", "/nothing", "/runbooks/"):
                async with client.get(path) as answer:
                    pages.append(await answer.text())
    assert engine.asked["/server_info"] > 0
    assert f'engine="{engine.address}"' in pages[1]
    assert not [key for key in PLANTED if key in "".join(pages) + caplog.text]


async def test_the_state_says_from_when_on_it_counts_and_what_other_rings_there_are(sidecar, rings):
    RingFile(rings, identity={**IDENTITY, "port": 31000})
    async with sidecar(engines=(parse_target("127.0.0.1:1"),)) as client:
        told = await state_of(client)
    assert told["recording"] is None
    assert abs(datetime.fromisoformat(told["since"]).timestamp() - time.time()) < 30
    assert told["rings"] == {"waiting": 0, "other_engine": 1}


async def state_of(client):
    async with client.get("/state") as answer:
        return await answer.json()


async def test_the_state_says_what_is_not_read_and_why(sidecar, rings):
    (rings / "1-1.ring").write_bytes(b"")
    async with sidecar() as client, client.get("/state") as answer:
        state = await answer.json()
    assert state["engines"] == []
    assert [one["file"] for one in state["refused"]] == ["1-1.ring"]


async def test_an_engine_that_was_named_is_shown_down_when_it_does_not_answer(sidecar, rings):
    async with sidecar(engines=(parse_target("127.0.0.1:1"),)) as client, client.get("/state") as answer:
        (engine,) = (await answer.json())["engines"]
    assert (engine["up"], engine["why_down"]) == (False, "refused")
