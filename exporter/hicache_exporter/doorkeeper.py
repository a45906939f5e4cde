"""Connections that ask nothing: aiohttp ends what is idle after a request, and waits for ever for a first one."""

from __future__ import annotations

import asyncio
from typing import Any

from aiohttp import web

HEAD_SECONDS = 10.0
"""For the whole head of a connection's first request."""
MOST = 512
"""Connections at once; a process may have 1024 files, and has others."""


class Doorkeeper:
    """Stands before a server's own hooks."""

    def __init__(self, server: web.Server) -> None:
        self._made, self._lost, self._request = server.connection_made, server.connection_lost, server.request_factory
        self._server = server
        self._waiting: dict[object, asyncio.TimerHandle] = {}
        server.connection_made = self._comes  # type: ignore[method-assign]
        server.connection_lost = self._goes  # type: ignore[method-assign]
        server.request_factory = self._asks

    def _comes(self, handler: Any, transport: asyncio.Transport) -> None:
        self._made(handler, transport)
        if len(self._server.connections) > MOST:
            transport.abort()
            return
        self._waiting[handler] = asyncio.get_running_loop().call_later(HEAD_SECONDS, transport.abort)

    def _asks(self, message: Any, payload: Any, protocol: Any, *others: Any) -> Any:
        self._no_longer_waits(protocol)
        return self._request(message, payload, protocol, *others)

    def _goes(self, handler: Any, exc: BaseException | None = None) -> None:
        self._no_longer_waits(handler)
        self._lost(handler, exc)

    def _no_longer_waits(self, handler: object) -> None:
        if (timer := self._waiting.pop(handler, None)) is not None:
            timer.cancel()
