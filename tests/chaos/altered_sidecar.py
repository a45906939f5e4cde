"""The sidecar with something changed: ``altered_sidecar.py ALTERATION serve ...``.

All but the first take a protection away, so that a test which means to prove it can be seen to fail.
"""

from __future__ import annotations

import os
import sys
import time
from typing import Any

from aiohttp import web

from hicache_exporter import doorkeeper
from hicache_exporter.cli import main
from hicache_exporter.server import Server

KEPT: list[Any] = []
ENDLESS = 1 << 30


def hurries() -> None:
    """As it is, only that nobody has to wait ten seconds to see it end what never asks."""
    doorkeeper.HEAD_SECONDS = 1.0


def waits_for_ever() -> None:
    """For the head of a request."""
    doorkeeper.HEAD_SECONDS = 1e9


def hoards() -> None:
    """Every answer stays, and its clothes with it."""
    answer = Server.metrics

    async def metrics(self: Server, request: web.Request) -> web.Response:
        KEPT.append(bytes(4 << 20).replace(b"\0", b"x"))
        return await answer(self, request)

    Server.metrics = metrics  # type: ignore[method-assign]


def forgets_to_close() -> None:
    """Of every connection a descriptor stays open."""
    comes = doorkeeper.Doorkeeper._comes

    def keeps(self: doorkeeper.Doorkeeper, handler: Any, transport: Any) -> None:
        KEPT.append(os.dup(transport.get_extra_info("socket").fileno()))
        comes(self, handler, transport)

    doorkeeper.Doorkeeper._comes = keeps  # type: ignore[method-assign]


def waits_for_readers() -> None:
    """An answer has its whole attention until it was read."""
    answer = Server.metrics

    async def metrics(self: Server, request: web.Request) -> web.Response:
        answered = await answer(self, request)
        if "Accept-Encoding" in request.headers:
            return answered  # a client of some manners
        assert isinstance(answered.body, bytes)
        assert request.transport is not None
        socket = os.dup(request.transport.get_extra_info("socket").fileno())
        rest = b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n" + answered.body.ljust(16 << 20)
        while rest:
            try:
                rest = rest[os.write(socket, rest) :]
            except BlockingIOError:
                time.sleep(0.01)
        os.close(socket)
        request.transport.close()
        return web.Response()

    Server.metrics = metrics  # type: ignore[method-assign]


def reads_whatever_comes() -> None:
    """Heads and bodies of any length, and it keeps them until they end."""
    runner = web.AppRunner.__init__

    def unlimited(self: web.AppRunner, *args: Any, **options: Any) -> None:
        endless = dict.fromkeys(("max_line_size", "max_field_size", "max_headers"), ENDLESS)
        runner(self, *args, **{**options, **endless})

    web.AppRunner.__init__ = unlimited  # type: ignore[method-assign]


ALTERATIONS = {
    function.__name__: function
    for function in (hurries, waits_for_ever, hoards, forgets_to_close, waits_for_readers, reads_whatever_comes)
}

if __name__ == "__main__":
    ALTERATIONS[sys.argv.pop(1)]()
    main()
