"""A fake engine with the plugin in it, for each of the two forms that the seams know."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from .engines import RELEASES, Engine
from .engines import engine as running


@pytest.fixture(params=RELEASES)
def release(request) -> str:
    return request.param


@pytest.fixture
def engine(release, tmp_path) -> Iterator[Engine]:
    with running(release, tmp_path) as engine:
        yield engine
