"""All engines, read side by side: none waits for another."""

from __future__ import annotations

import asyncio
import weakref
from dataclasses import dataclass, field

import aiohttp

from hicache_exporter.core.engine_reading import EngineReading
from hicache_exporter.core.engine_report import EngineReport, EngineTracker
from hicache_exporter.sources.bearer import Bearer
from hicache_exporter.sources.engine_client import EngineClient
from hicache_exporter.sources.targets import Target, Targets


@dataclass(slots=True)
class _Engine:
    client: EngineClient
    tracker: EngineTracker = field(default_factory=EngineTracker)
    taken: weakref.ref[EngineReading] | None = None
    """The reading that the report is of; it is not kept alive."""
    report: EngineReport | None = None


class Engines:
    """Owns one client and one tracker an engine, as long as the targets name it."""

    def __init__(self, session: aiohttp.ClientSession, targets: Targets, bearer: Bearer | None = None) -> None:
        self.targets = targets
        self._session = session
        self._bearer = bearer or Bearer()
        self._engines: dict[str, _Engine] = {}

    @property
    def reports(self) -> list[EngineReport]:
        """What the last refresh brought, in the order of the targets."""
        return [engine.report for engine in list(self._engines.values()) if engine.report is not None]

    def tracker(self, engine: str) -> EngineTracker | None:
        """What is kept of an engine (host:port); None: no target of that name."""
        found = self._engines.get(engine)
        return found.tracker if found else None

    async def refresh(self, seconds: float) -> list[EngineReport]:
        """Reads every engine; ready after ``seconds`` at the latest, whatever the engines do."""
        await self._follow_targets()
        await asyncio.gather(*(self._refresh(engine, seconds) for engine in list(self._engines.values())))
        return self.reports

    async def close(self) -> None:
        await self._drop(list(self._engines))

    async def _refresh(self, engine: _Engine, seconds: float) -> None:
        reading = await engine.client.read(seconds)
        if engine.taken is not None and engine.taken() is reading:
            return  # another scrape shared this read and has already taken it
        engine.taken = weakref.ref(reading)
        restarts = engine.tracker.counters.restarts
        engine.report = engine.tracker.take(reading)
        if engine.report.restarts != restarts:
            engine.client.forget_info()

    async def _follow_targets(self) -> None:
        wanted = {target.engine: target for target in self.targets.current()}
        await self._drop([name for name, engine in self._engines.items() if not _same_place(engine, wanted.get(name))])
        for target in wanted.values():
            engine = self._engines.setdefault(target.engine, _Engine(EngineClient(self._session, target, self._bearer)))
            engine.client.target = target

    async def _drop(self, names: list[str]) -> None:
        for name in names:
            await self._engines.pop(name).client.close()


def _same_place(engine: _Engine, target: Target | None) -> bool:
    return target is not None and engine.client.target.metrics_url == target.metrics_url
