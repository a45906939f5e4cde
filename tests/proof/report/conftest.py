from __future__ import annotations

import pytest
from rich.console import Console

from hicache_proof.lab.lab import Target, connected
from hicache_proof.lab.options import Options
from hicache_proof.lab.progress import shown

from ..lab.fake_engine import FakeEngine, serving, sidecar_of


def run_against(engine, control=None, sidecar=True, **asked_for):
    with serving(engine) as url, sidecar_of(engine) as sidecar_url, serving(control or FakeEngine()) as control_url:
        target = Target(url, control_url if control else None, sidecar_url if sidecar else "http://127.0.0.1:9")
        options = Options(None, 2, without_recorder=not sidecar, **asked_for)
        with connected(target, options) as lab, shown(Console(quiet=True)) as progress:
            return lab.run(progress, "hicache-witness lab --engine URL")


@pytest.fixture(scope="session")
def proven():
    """A corroborated run with a control engine."""
    return run_against(FakeEngine(), FakeEngine(hicache=False))


@pytest.fixture(scope="session")
def unwatched():
    """The same without a sidecar or a control engine."""
    return run_against(FakeEngine(), sidecar=False)


@pytest.fixture(scope="session")
def everything():
    """All that can be asked for: series E, both ladders, markers that are recalled, speculative decoding."""
    engine = FakeEngine(storage="file", host=16384, follows=True, accepts=2.5, seconds_per_token=50e-6)
    return run_against(engine, storage=True, lengths=(100, 200, 400), concurrency=(1, 2))


@pytest.fixture(scope="session")
def damaged():
    return run_against(FakeEngine(damages=True))
