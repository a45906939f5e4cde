"""What a real Prometheus makes of an engine through the sidecar: first hits, restarts, and an engine that is gone."""

from __future__ import annotations

import asyncio
import contextlib
import shutil
import socket
import time

import aiohttp
import pytest
from aiohttp import web

from hicache_exporter.app import App
from hicache_exporter.config import Settings
from hicache_exporter.server import Server
from hicache_exporter.sources.targets import parse_target

from .faulty import FaultyEngine

PROMETHEUS = shutil.which("prometheus")
pytestmark = [
    pytest.mark.stack,
    pytest.mark.skipif(PROMETHEUS is None, reason="needs Debian's package prometheus"),
]

HOST_HITS = "hicache_engine_cached_tokens_total{tier='host'}"


class Prometheus:
    def __init__(self, folder, scraped: str) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self._address = f"127.0.0.1:{free.getsockname()[1]}"
        self._folder = folder
        (folder / "prometheus.yml").write_text(
            "global: {scrape_interval: 250ms, scrape_timeout: 250ms}\n"
            f"scrape_configs: [{{job_name: sidecar, static_configs: [{{targets: ['{scraped}']}}]}}]\n"
        )

    @contextlib.asynccontextmanager
    async def running(self):
        process = await asyncio.create_subprocess_exec(
            PROMETHEUS,
            f"--config.file={self._folder}/prometheus.yml",
            f"--storage.tsdb.path={self._folder}/tsdb",
            f"--web.listen-address={self._address}",
            "--log.level=error",
        )
        try:
            yield self
        finally:
            process.terminate()
            await process.wait()

    async def value(self, query: str) -> float | None:
        async with aiohttp.ClientSession() as session:
            address = f"http://{self._address}/api/v1/query"
            async with session.get(address, params={"query": query}) as answer:
                found = (await answer.json())["data"]["result"]
        return float(found[0]["value"][1]) if found else None

    async def until(self, query: str, wanted: float | None, seconds: float = 20.0) -> None:
        ends, seen = time.monotonic() + seconds, "no answer"
        while time.monotonic() < ends:
            with contextlib.suppress(aiohttp.ClientError):
                seen = await self.value(query)
                if seen == wanted:
                    return
            await asyncio.sleep(0.2)
        pytest.fail(f"{query} is {seen}, not {wanted}")


@pytest.fixture
async def prometheus(world, tmp_path):
    engine = FaultyEngine()
    engine.first = engine.text
    engine.text = "".join(line for line in engine.text.splitlines(True) if 'cache_source="host"' not in line)
    await world.start(engine)
    app = App(
        Settings(engines=(parse_target(engine.address),), ring_folder=str(tmp_path), off=frozenset({"gpu", "pcie"}))
    )
    runner = web.AppRunner(Server(app).application(), shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    await app.start()
    try:
        async with Prometheus(tmp_path, f"127.0.0.1:{runner.addresses[0][1]}").running() as server:
            server.engine = engine
            yield server
    finally:
        await runner.cleanup()
        await app.stop()


async def test_the_first_hit_is_an_increase_and_a_restart_is_no_jump(prometheus):
    engine = prometheus.engine
    await prometheus.until(HOST_HITS, 0)
    await asyncio.sleep(1)
    engine.text = engine.first
    await prometheus.until(HOST_HITS, 598)
    assert await prometheus.value(f"increase({HOST_HITS}[10m]) > 0")
    assert await prometheus.value(f"resets({HOST_HITS}[10m])") == 0

    gone = "".join(line for line in engine.first.splitlines(True) if "cached_tokens" not in line)
    engine.text = gone.replace('pid="', 'pid="9')
    await prometheus.until("hicache_engine_restarts_total", 1)
    await prometheus.until(HOST_HITS, 0)
    assert await prometheus.value(f"resets({HOST_HITS}[10m])") == 1


async def test_an_engine_that_is_gone_leaves_no_stale_series(prometheus):
    await prometheus.until("count(hicache_engine_capacity_tokens)", 2)
    prometheus.engine.mode = "empty"
    await prometheus.until("hicache_engine_up", 0)
    await prometheus.until("count(hicache_engine_capacity_tokens)", None)
    assert await prometheus.value("hicache_engine_scrape_failures_total{reason='empty'}") >= 1
    prometheus.engine.mode = "good"
    await prometheus.until("count(hicache_engine_capacity_tokens)", 2)
