"""No real engine outlives the process that started it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from hicache_proof.demo.engine import Engine, EngineSpec

pytestmark = pytest.mark.engine

STARTER = """
import sys, time
from pathlib import Path
from hicache_proof.demo.engine import Engine, EngineSpec
with Engine(EngineSpec(tp_size=int(sys.argv[2])), Path(sys.argv[1])) as engine:
    print(*engine.pids, flush=True)
    time.sleep(600)
"""


def running(pids: list[int]) -> list[int]:
    return [pid for pid in pids if Path(f"/proc/{pid}").exists()]


@pytest.mark.parametrize(("number", "ranks"), [(signal.SIGKILL, 2), (signal.SIGINT, 1)])
def test_the_end_of_the_starter_is_the_end_of_the_engine(tmp_path: Path, number: signal.Signals, ranks: int) -> None:
    command = [sys.executable, "-c", STARTER, str(tmp_path), str(ranks)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as starter:
        assert starter.stdout is not None
        pids = [int(pid) for pid in starter.stdout.readline().split()]
        assert len(running(pids)) >= 2 + ranks  # server, detokenizer, one scheduler a rank
        os.kill(starter.pid, number)
        deadline = time.monotonic() + 15
        while running(pids):
            assert time.monotonic() < deadline, running(pids)
            time.sleep(0.05)


def test_a_killed_engine_leaves_its_rings(tmp_path: Path) -> None:
    with Engine(EngineSpec(), tmp_path) as engine:
        assert len(engine.scheduler_pids) == 1
        engine.kill()
        assert engine.pids == []
        assert len(list(engine.rings.glob("*.ring"))) == 1
