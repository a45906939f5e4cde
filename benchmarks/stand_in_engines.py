"""Engines that answer what a real SGLang 0.5.23 once answered, in a process of their own."""

from __future__ import annotations

import asyncio
import json
import multiprocessing
import re
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing.connection import Connection
from pathlib import Path

from aiohttp import web

CAPTURES = Path(__file__).parents[1] / "tests" / "exporter" / "engine" / "captures"
CAPTURE = "0.5.23-cpu-l3"


@contextmanager
def stand_in_engines(count: int, ranks: int) -> Iterator[list[int]]:
    """The ports of ``count`` engines of so many tensor-parallel ranks."""
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=_run, args=(count, ranks, theirs), daemon=True)
    process.start()
    try:
        if not ours.poll(30):
            raise SystemExit("the stand-in engines did not start in 30 seconds")
        yield ours.recv()
    finally:
        ours.send("stop")
        process.join(5)


def with_ranks(text: str, ranks: int) -> bytes:
    """The text as an engine of so many ranks writes it: what it has of each rank, each has."""
    lines: list[str] = []
    for line in text.split("\n"):
        by_rank = re.search(r'(?:cache_type|storage_backend)=.*tp_rank="0"', line)
        lines += [line.replace('tp_rank="0"', f'tp_rank="{rank}"') for rank in range(ranks)] if by_rank else [line]
    return "\n".join(lines).encode()


def _run(count: int, ranks: int, parent: Connection) -> None:
    asyncio.run(_serve(count, ranks, parent))


async def _serve(count: int, ranks: int, parent: Connection) -> None:
    metrics = with_ranks((CAPTURES / f"{CAPTURE}.txt").read_text(), ranks)
    info = json.dumps(json.loads((CAPTURES / f"{CAPTURE}.json").read_text()) | {"tp_size": ranks}).encode()

    async def answer(request: web.Request) -> web.Response:
        return web.Response(body=metrics if request.path == "/metrics" else info, content_type="text/plain")

    app = web.Application()
    app.router.add_get("/{path:.*}", answer)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    for _ in range(count):
        await web.TCPSite(runner, "127.0.0.1", 0).start()
    parent.send([port for _, port in runner.addresses])
    await asyncio.get_running_loop().run_in_executor(None, parent.recv)
    await runner.cleanup()
