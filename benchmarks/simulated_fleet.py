"""Many sidecars in one process: a scrape of a real one, its counters moving from scrape to scrape."""

from __future__ import annotations

import asyncio
import gzip
import multiprocessing
import re
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing.connection import Connection

from aiohttp import web

VERSIONS = 24
VALUE = re.compile(r"^([^#\s][^\n]*?(?:_total|_count|_sum|_bucket\{[^}\n]*\})(?:\{[^}\n]*\})?) (\S+)", re.MULTILINE)


@contextmanager
def simulated_fleet(page: str) -> Iterator[int]:
    """The port; every path on it is a sidecar's /metrics."""
    context = multiprocessing.get_context("fork")
    ours, theirs = context.Pipe()
    process = context.Process(target=lambda: asyncio.run(_serve(page, theirs)), daemon=True)
    process.start()
    try:
        if not ours.poll(60):
            raise SystemExit("the simulated fleet did not start in a minute")
        yield ours.recv()
    finally:
        process.kill()
        process.join(5)


def moved(page: str, step: int) -> bytes:
    """The page after so many scrapes of a loaded engine: what counts has grown by a different amount in each series."""

    def grown(found: re.Match[str]) -> str:
        return f"{found[1]} {float(found[2]) + step * (1 + len(found[1]) % 97)}"

    return gzip.compress(VALUE.sub(grown, page).encode(), 1)


async def _serve(page: str, parent: Connection) -> None:
    versions = [moved(page, step) for step in range(VERSIONS)]
    scrapes: dict[str, int] = {}
    headers = {"Content-Encoding": "gzip", "Content-Type": "application/openmetrics-text; version=1.0.0; charset=utf-8"}

    async def answer(request: web.Request) -> web.Response:
        scrapes[request.path] = scrapes.get(request.path, -1) + 1
        return web.Response(body=versions[scrapes[request.path] % VERSIONS], headers=headers)

    app = web.Application()
    app.router.add_get("/{path:.*}", answer)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    parent.send(runner.addresses[0][1])
    await asyncio.Event().wait()
