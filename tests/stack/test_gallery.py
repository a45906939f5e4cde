"""Every board drawn from what the incidents left in Prometheus: the gallery of the README is made this way."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from hicache_dashboards import config
from hicache_dashboards.boards.catalogue import boards
from hicache_dashboards.pictures.answers import Prometheus, Window
from hicache_dashboards.pictures.draw import picture

from .conftest import Stack

pytestmark = [pytest.mark.stack, pytest.mark.engine, pytest.mark.timeout(900)]


def test_every_board_can_be_drawn(stack: Stack, tmp_path: Path) -> None:
    """$HICACHE_PICTURES keeps the images."""
    out = Path(os.environ.get("HICACHE_PICTURES", tmp_path))
    time.sleep(float(os.environ.get("HICACHE_PICTURES_AFTER", "0")))
    window = Window(time.time() - 300, time.time(), scrape=1)
    for board in boards(config.load()):
        picture(board, Prometheus(stack.prometheus.url), window, out / f"{board.uid}.png")
        assert (out / f"{board.uid}.png").read_bytes().startswith(b"\x89PNG")
