"""What reading engines costs the sidecar: 64 of them in one scrape, and one alone.

    python benchmarks/engine_fleet.py [--engines 64] [--ranks 8] [--scrapes 40] [--json FILE]

The engines are recorded 0.5.23 answers (L3 on, labelled by rank) served by another process. A scrape is: read every
engine over HTTP, build the families, write the text. "beyond" is that time less the time of the slowest engine.
CPU is the sidecar's own process; the share of a core is for one scrape every 15 seconds.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import multiprocessing
import os
import re
import statistics
import sys
import time
from multiprocessing.connection import Connection
from pathlib import Path

from aiohttp import web
from prometheus_client import CollectorRegistry
from prometheus_client.exposition import generate_latest

from hicache_exporter.collectors.engine import EngineCollector
from hicache_exporter.sources.engine_http import engine_session
from hicache_exporter.sources.engines import Engines
from hicache_exporter.sources.targets import Targets, parse_target

CAPTURES = Path(__file__).parents[1] / "tests" / "exporter" / "engine" / "captures"
CAPTURE = "0.5.23-cpu-l3"
INTERVAL = 15.0


def with_ranks(text: str, ranks: int) -> bytes:
    lines: list[str] = []
    for line in text.split("\n"):
        by_rank = re.search(r'(?:cache_type|storage_backend)=.*tp_rank="0"', line)
        lines += [line.replace('tp_rank="0"', f'tp_rank="{rank}"') for rank in range(ranks)] if by_rank else [line]
    return "\n".join(lines).encode()


async def serve(engines: int, ranks: int, parent: Connection) -> None:
    metrics = with_ranks((CAPTURES / f"{CAPTURE}.txt").read_text(), ranks)
    info = json.dumps(json.loads((CAPTURES / f"{CAPTURE}.json").read_text()) | {"tp_size": ranks}).encode()

    async def answer(request: web.Request) -> web.Response:
        return web.Response(body=metrics if request.path == "/metrics" else info, content_type="text/plain")

    app = web.Application()
    app.router.add_get("/{path:.*}", answer)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    for _ in range(engines):
        await web.TCPSite(runner, "127.0.0.1", 0).start()
    parent.send([port for _, port in runner.addresses])
    await asyncio.get_running_loop().run_in_executor(None, parent.recv)
    await runner.cleanup()


def stand_in(engines: int, ranks: int, parent: Connection) -> None:
    asyncio.run(serve(engines, ranks, parent))


async def measure(ports: list[int], scrapes: int) -> dict[str, object]:
    wall, beyond, cpu = [], [], []
    async with engine_session() as session:
        engines = Engines(session, Targets([parse_target(f"127.0.0.1:{port}") for port in ports]))
        registry = CollectorRegistry()
        registry.register(EngineCollector(lambda: engines.reports))
        await engines.refresh(10.0)  # the first one also reads every /server_info
        for _ in range(scrapes):
            started, used = time.perf_counter(), time.process_time()
            reports = await engines.refresh(10.0)
            page = generate_latest(registry)
            wall.append((time.perf_counter() - started) * 1e3)
            cpu.append((time.process_time() - used) * 1e3)
            beyond.append(wall[-1] - max(report.reading.seconds for report in reports) * 1e3)
        assert all(report.reading.up and report.reading.info for report in reports)
        await engines.close()
    return {
        "engines": len(ports),
        "page_kb": round(len(page) / 1024),
        "wall_ms_median": round(statistics.median(wall), 1),
        "wall_ms_p99": round(quantile(wall, 0.99), 1),
        "beyond_ms_p99": round(quantile(beyond, 0.99), 1),
        "cpu_ms_median": round(statistics.median(cpu), 1),
        "core_percent": round(100 * statistics.median(cpu) / 1e3 / INTERVAL, 2),
        "rss_mb": round(rss_mb(), 1),
    }


def quantile(values: list[float], share: float) -> float:
    return sorted(values)[min(len(values) - 1, int(share * len(values)))]


def rss_mb() -> float:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 2**20


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--engines", type=int, default=64)
    options.add_argument("--ranks", type=int, default=8)
    options.add_argument("--scrapes", type=int, default=40)
    options.add_argument("--json", type=Path)
    given = options.parse_args()
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=stand_in, args=(given.engines, given.ranks, theirs), daemon=True)
    process.start()
    try:
        ports = ours.recv()
        rows = [
            asyncio.run(measure(ports[:count], scrapes))
            for count, scrapes in ((1, 300), (given.engines, given.scrapes))
        ]
    finally:
        ours.send("stop")
        process.join(5)
    for row in rows:
        print("  ".join(f"{name}={value}" for name, value in row.items()))
    if given.json:
        given.json.write_text(json.dumps(rows, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
