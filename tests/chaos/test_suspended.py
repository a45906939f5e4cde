"""A process that stands still for a while: what was lost meanwhile is counted, and nothing is invented."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from .fake_engine import FakeEngine, RealSidecar

SLOTS = 1024
Pair = tuple[FakeEngine, RealSidecar]


pytestmark = pytest.mark.stack


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[Callable[[float], Pair]]:
    """An engine that writes ``rate`` records a second, each two slots of a ring of 1024, and a sidecar."""
    rings = tmp_path / "rings"
    rings.mkdir(mode=0o700)
    sidecar = RealSidecar(rings, tmp_path / "sidecar.log")
    engines: list[FakeEngine] = []

    def start(rate: float) -> Pair:
        engines.append(FakeEngine(rings, tmp_path / "account", rate, "--slots", str(SLOTS), "--even"))
        return engines[0], sidecar

    yield start
    os.kill(sidecar.process.pid, signal.SIGCONT)
    sidecar.kill()
    for engine in engines:
        engine.kill()


def counted(sidecar: RealSidecar) -> tuple[float, float, dict[str, float]]:
    """Records read, slots lost, verdicts."""
    series = sidecar.series()
    read = sum(value for name, value in series.items() if name.startswith("hicache_recorder_records_total"))
    lost = sum(value for name, value in series.items() if name.startswith("hicache_recorder_lost_records_total"))
    verdicts = {
        name.split("verdict=")[1][:-1]: value
        for name, value in series.items()
        if name.startswith("hicache_verdicts_total") and value
    }
    return read, lost, verdicts


@pytest.mark.parametrize(("rate", "loses"), [(200.0, False), (5000.0, True)], ids=["within the ring", "beyond it"])
def test_a_sidecar_that_is_suspended(pair: Callable[[float], Pair], rate: float, loses: bool) -> None:
    engine, sidecar = pair(rate)
    time.sleep(0.3)
    for _ in range(3):
        os.kill(sidecar.process.pid, signal.SIGSTOP)
        time.sleep(0.5)
        os.kill(sidecar.process.pid, signal.SIGCONT)
        time.sleep(0.3)
    engine.pause()
    time.sleep(0.5)
    read, lost, verdicts = counted(sidecar)
    assert (lost > 0) is loses
    assert engine.written.slots <= 2 * read + lost <= engine.written.slots + 2
    # consistent: of a read whose own records are all there, and not those of the backup that it reads
    assert verdicts.keys() <= {"proven", "no_read", "not_observed", *(["consistent"] if loses else [])}
    assert verdicts.get("no_read", 0) <= engine.written.stories + 1


def test_an_engine_that_is_suspended(pair: Callable[[float], Pair]) -> None:
    engine, sidecar = pair(100.0)
    for _ in range(5):
        engine.pause()
        time.sleep(0.3)
        engine.go_on()
        time.sleep(0.2)
    engine.pause()
    time.sleep(0.3)
    read, lost, verdicts = counted(sidecar)
    assert (read, lost) in {(engine.written.records, 0), (engine.written.records + 1, 0)}
    assert verdicts.keys() <= {"proven", "no_read"}


@pytest.mark.chaos
def test_an_engine_that_is_suspended_for_longer_than_a_verdict_waits(pair: Callable[[float], Pair]) -> None:
    """At any place of a story: what is still to come contradicts nothing."""
    engine, sidecar = pair(20.0)
    for _ in range(16):
        engine.pause()
        time.sleep(13)
        assert counted(sidecar)[2].keys() <= {"proven", "no_read", "consistent", "not_observed"}
        engine.go_on()
        time.sleep(0.13)
