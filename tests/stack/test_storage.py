"""The storage board, watched by a real Prometheus over a real engine whose L3 is a folder of files."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from hicache_dashboards import config
from hicache_dashboards.boards import storage
from hicache_dashboards.pictures import answers
from hicache_dashboards.pictures.answers import Window
from hicache_dashboards.pictures.draw import picture
from hicache_proof.demo.engine import Engine, EngineSpec
from hicache_proof.demo.ports import free_port

from .programs import FAST, Prometheus, running
from .test_panels import filled_in
from .traffic import Traffic
from .waiting import wait_until

pytestmark = [pytest.mark.stack, pytest.mark.engine, pytest.mark.timeout(900)]
QUERIES = {f"{p.title} / {q.legend}": q for p in storage.board(config.load()).panels for q in p.queries}


@pytest.fixture(scope="module")
def watched(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Prometheus]:
    """More prefixes than L1 and L2 hold together come again and again: some can only come from storage."""
    folder = tmp_path_factory.mktemp("l3")
    spec = EngineSpec(storage=folder / "files", page_size=16, hicache_ratio=2.0)
    spec.storage.mkdir()  # type: ignore[union-attr]
    listen = f"127.0.0.1:{free_port()}"
    with ExitStack() as programs:
        engine = programs.enter_context(Engine(spec, folder / "engine"))
        programs.enter_context(Traffic(engine.url, prefixes=20))
        command = [sys.executable, "-m", "hicache_exporter", "serve", "--engine", engine.url]
        command += ["--ring-dir", str(engine.rings), "--listen", listen]
        programs.enter_context(running(command, folder / "sidecar.log", f"http://{listen}/-/ready"))
        targets = [{"targets": [listen]}]
        prometheus = Prometheus(folder / "prometheus", targets, f"127.0.0.1:{free_port()}", FAST)
        programs.enter_context(prometheus.run())
        served = 'sum(rate(hicache_engine_cached_tokens_total{tier="storage"}[15s])) > 0'
        wait_until(lambda: prometheus.query(served), "storage serves", 200)
        served = 'sum(rate(hicache_ttft_seconds_count{tier="storage"}[15s])) > 0'
        wait_until(lambda: prometheus.query(served), "the recorder has seen it as well", 100)
        yield prometheus


@pytest.mark.parametrize("name", QUERIES)
def test_every_query_of_the_board_has_data(name: str, watched: Prometheus) -> None:
    expr = filled_in(QUERIES[name].expr)
    wait_until(lambda: watched.query(expr), expr, 60)


def test_the_board_can_be_drawn(watched: Prometheus, tmp_path: Path) -> None:
    """$HICACHE_PICTURES keeps the image, for the gallery."""
    out = Path(os.environ.get("HICACHE_PICTURES", tmp_path)) / "hicache-storage.png"
    time.sleep(float(os.environ.get("HICACHE_PICTURES_AFTER", "0")))
    window = Window(time.time() - 90, time.time(), scrape=1)
    picture(storage.board(config.load()), answers.Prometheus(watched.url), window, out)
    assert out.read_bytes().startswith(b"\x89PNG")
