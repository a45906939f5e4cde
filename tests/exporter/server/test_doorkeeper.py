"""Connections that ask nothing, and too many of them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from aiohttp import web

from hicache_exporter import doorkeeper
from hicache_exporter.config import Settings
from hicache_exporter.serve import listen
from hicache_exporter.web_security import WebSecurity
from hicache_proof.demo.ports import free_port

REQUEST = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"
Connection = tuple[asyncio.StreamReader, asyncio.StreamWriter]


@asynccontextmanager
async def served() -> AsyncIterator[int]:
    async def answer(_request: web.Request) -> web.Response:
        await asyncio.sleep(0.2)
        return web.Response(text="here")

    application, port = web.Application(), free_port()
    application.router.add_get("/", answer)
    runner = web.AppRunner(application, access_log=None, handle_signals=False)
    await runner.setup()
    await listen(runner, Settings(host="127.0.0.1", port=port), WebSecurity(None))
    try:
        yield port
    finally:
        await runner.cleanup()


async def connected(port: int, says: bytes) -> Connection:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(says)
    return reader, writer


async def hears(connection: Connection) -> bytes:
    """The first line; nothing if the connection was ended."""
    try:
        return await asyncio.wait_for(connection[0].readline(), 5)
    except ConnectionResetError:
        return b""
    finally:
        connection[1].close()


@pytest.mark.parametrize("says", [b"", b"GET / HTTP/1.1\r\nHost: x\r\n"])
async def test_who_never_asks_is_let_go(monkeypatch: pytest.MonkeyPatch, says: bytes) -> None:
    monkeypatch.setattr(doorkeeper, "HEAD_SECONDS", 0.05)
    async with served() as port:
        assert await hears(await connected(port, says)) == b""


async def test_who_has_asked_is_answered_whatever_it_takes_and_may_ask_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doorkeeper, "HEAD_SECONDS", 0.05)
    async with served() as port:
        reader, writer = await connected(port, REQUEST)
        assert await reader.readline() == b"HTTP/1.1 200 OK\r\n"
        await reader.readuntil(b"here")
        writer.write(REQUEST)
        assert await hears((reader, writer)) == b"HTTP/1.1 200 OK\r\n"


async def test_one_too_many_is_let_go_until_another_leaves(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doorkeeper, "MOST", 2)
    async with served() as port:
        idle = [await connected(port, b"") for _ in range(2)]
        assert await hears(await connected(port, REQUEST)) == b""
        idle[0][1].close()
        await asyncio.sleep(0.05)
        assert await hears(await connected(port, REQUEST)) == b"HTTP/1.1 200 OK\r\n"
        idle[1][1].close()
