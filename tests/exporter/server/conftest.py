from contextlib import asynccontextmanager

import pytest
from aiohttp.test_utils import TestClient, TestServer

from hicache_exporter.app import App
from hicache_exporter.config import Settings
from hicache_exporter.server import Server


@pytest.fixture
def rings(tmp_path):
    path = tmp_path / "rings"
    path.mkdir(mode=0o700)
    return path


@pytest.fixture
def sidecar(rings):
    """Makes a running sidecar without GPU and host collectors, to be entered as an async context."""

    @asynccontextmanager
    async def running(**settings):
        app = App(Settings(ring_folder=str(rings), off=frozenset(("gpu", "pcie", "host")), **settings))
        async with TestClient(TestServer(Server(app).application())) as client:
            client.sidecar = app
            await app.start()
            try:
                yield client
            finally:
                await app.stop()

    return running
