"""The sidecar's HTTP face on a replay: the recorded answers where there are any, else those of the sidecar itself."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from aiohttp import hdrs, web
from prometheus_client.openmetrics.exposition import CONTENT_TYPE_LATEST

from hicache_exporter.app import App
from hicache_exporter.overview import moment, unknown
from hicache_exporter.replay.frame import cards
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

    def _overview(self) -> dict[str, Any]:
        """With the recorded metrics of this moment in place of what a sidecar of this round has counted."""
        told = super()._overview()
        at = self._player.recorded_at
        told["recording"] = {"at": moment(at) if at is not None else None, "speed": self._player.speed}
        text = self._player.metrics()
        if text is not None:
            engines = {engine["engine"]: engine for engine in told["engines"]}
            for label, card in _cards(text).items():
                engines[label] = _with(engines.get(label, unknown(label)), card)
            told |= {"engines": list(engines.values()), "since": None}
        return told

    def _why_none(self, request_id: str) -> str:
        if not self._player.has_rings:
            return "this session has metrics only, and no flight recorder from which a request could be judged"
        return f"{super()._why_none(request_id)} (this is a replay: perhaps it is still to come, or of the last round)"


def _cards(text: str) -> dict[str, dict[str, Any]]:
    """Nothing, where the recorded text is none that a sidecar writes: it is served as it is all the same."""
    with suppress(ValueError):
        return cards(text)
    return {}


def _with(engine: dict[str, Any], card: dict[str, Any]) -> dict[str, Any]:
    """The flight recorder knows the sizes of the tiers better: not every engine tells them."""
    known = engine.get("capacity_tokens", {})
    sizes = {tier: known.get(tier) or size for tier, size in card["capacity_tokens"].items()}
    recorded = "now" if card["counted"] is not None else engine["recorded"]
    return {**engine, **card, "capacity_tokens": sizes, "recorded": recorded}
