"""All engines, read side by side: none waits for another."""

from __future__ import annotations

import asyncio

import aiohttp

from hicache_exporter.core.engine_report import EngineReport, EngineTracker
from hicache_exporter.sources.bearer import Bearer
from hicache_exporter.sources.engine_client import EngineClient, RecordedTree
from hicache_exporter.sources.targets import Target, Targets


class Engines:
    """Owns one client an engine, as long as the targets name it."""

    def __init__(
        self,
        session: aiohttp.ClientSession,
        targets: Targets,
        bearer: Bearer | None = None,
        recorded_tree: RecordedTree = lambda _: None,
    ) -> None:
        self.targets = targets
        self._recorded_tree = recorded_tree
        self._session = session
        self._bearer = bearer or Bearer()
        self._clients: dict[str, EngineClient] = {}

    @property
    def reports(self) -> list[EngineReport]:
        """What was last read, in the order of the targets."""
        return [client.report for client in self._clients.values() if client.report is not None]

    def tracker(self, engine: str) -> EngineTracker | None:
        """What is kept of an engine (host:port); None: no target of that name."""
        client = self._clients.get(engine)
        return client.tracker if client else None

    async def refresh(self, seconds: float) -> list[EngineReport]:
        """Reads every engine; ready after ``seconds`` at the latest, whatever the engines do."""
        await self._follow_targets()
        return list(await asyncio.gather(*(client.read(seconds) for client in self._clients.values())))

    async def close(self) -> None:
        await self._drop(list(self._clients))

    async def _follow_targets(self) -> None:
        wanted = {target.engine: target for target in self.targets.current()}
        await self._drop([name for name, client in self._clients.items() if not _same_place(client, wanted.get(name))])
        for name, target in wanted.items():
            if name not in self._clients:
                self._clients[name] = EngineClient(self._session, target, self._bearer, self._recorded_tree)
            self._clients[name].target = target

    async def _drop(self, names: list[str]) -> None:
        for name in names:
            client = self._clients.pop(name, None)
            if client is not None:
                await client.close()


def _same_place(client: EngineClient, target: Target | None) -> bool:
    return target is not None and client.target.metrics_url == target.metrics_url
