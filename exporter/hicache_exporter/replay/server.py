"""The sidecar's HTTP face on a replay: the recorded answers where there are any, else those of the sidecar itself."""

from __future__ import annotations

from aiohttp import hdrs, web
from prometheus_client.openmetrics.exposition import CONTENT_TYPE_LATEST

from hicache_exporter.app import App
from hicache_exporter.replay.player import Player
from hicache_exporter.server import Server


class ReplayServer(Server):
    def __init__(self, player: Player) -> None:
        super().__init__(player.app)
        self._player = player
        player.turned = self._show

    def _show(self, app: App) -> None:
        """From now on: each round has a sidecar of its own."""
        self._app = app

    async def metrics(self, request: web.Request) -> web.Response:
        text = self._player.metrics()
        if text is None:
            return await super().metrics(request)
        return web.Response(body=text.encode(), headers={hdrs.CONTENT_TYPE: CONTENT_TYPE_LATEST})

    def _why_none(self, request_id: str) -> str:
        if not self._player.has_rings:
            return "this session has metrics only, and no flight recorder from which a request could be judged"
        return f"{super()._why_none(request_id)} (this is a replay: perhaps it is still to come, or of the last round)"
