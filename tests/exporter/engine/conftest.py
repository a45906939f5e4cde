from __future__ import annotations

from contextlib import AsyncExitStack, asynccontextmanager

import pytest

from hicache_exporter.sources.bearer import Bearer
from hicache_exporter.sources.engine_http import engine_session
from hicache_exporter.sources.engines import Engines
from hicache_exporter.sources.targets import Targets, parse_target


@pytest.fixture
async def world():
    """Starts engines and readers of them; stops all at the end."""
    async with AsyncExitStack() as stack:
        yield World(stack)


class World:
    def __init__(self, stack: AsyncExitStack) -> None:
        self._stack = stack

    async def start(self, engine, port: int = 0):
        return await self._stack.enter_async_context(engine.running(port))

    async def read(self, *addresses: str, bearer: Bearer | None = None) -> Engines:
        return await self.watch(Targets([parse_target(address) for address in addresses]), bearer)

    async def watch(self, targets: Targets, bearer: Bearer | None = None) -> Engines:
        return await self._stack.enter_async_context(_engines(targets, bearer))


@asynccontextmanager
async def _engines(targets: Targets, bearer: Bearer | None):
    async with engine_session() as session:
        engines = Engines(session, targets, bearer)
        try:
            yield engines
        finally:
            await engines.close()
