"""Starting everything together, and leaving nothing behind."""

from __future__ import annotations

import sys
import threading
from pathlib import Path

import httpx
import pytest

from hicache_proof.demo import show
from hicache_proof.demo.errors import EngineError, SidecarError
from hicache_proof.demo.sidecar import Sidecar
from hicache_proof.demo.stopwatch import Stopwatch


class FakeServer:
    """An engine that takes until ``close`` to start, or fails at once."""

    def __init__(self, fails=False):
        self.fails, self.closed, self.started = fails, threading.Event(), False

    def start(self):
        if self.fails:
            raise EngineError("died at its start")
        if self.closed.wait(timeout=0.05):
            raise EngineError("closed while starting")
        self.started = True

    def close(self):
        self.closed.set()


def test_both_engines_are_started():
    engines = FakeServer(), FakeServer()
    show._start_together(*engines)
    assert all(engine.started and not engine.closed.is_set() for engine in engines)


@pytest.mark.parametrize("failing", [0, 1])
def test_if_one_engine_dies_the_other_is_not_waited_for(failing):
    engines = [FakeServer(fails=index == failing) for index in range(2)]
    with pytest.raises(EngineError, match="died at its start"):
        show._start_together(*engines)
    assert all(engine.closed.is_set() for engine in engines)


SERVER = """
import http.server, sys
class Ready(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200); self.end_headers()
print("serving", flush=True)
http.server.HTTPServer(("127.0.0.1", int(sys.argv[1])), Ready).serve_forever()
"""


class FakeSidecar(Sidecar):
    program = SERVER

    def _command(self):
        return [sys.executable, "-c", self.program, str(self.port)]


def answers(sidecar) -> bool:
    try:
        return httpx.get(f"{sidecar.url}/-/ready", trust_env=False).is_success
    except httpx.TransportError:
        return False


def test_the_sidecar_ends_with_the_block(tmp_path):
    with FakeSidecar("http://engine", Path("rings"), tmp_path) as sidecar:
        assert answers(sidecar)
    assert not answers(sidecar)
    assert "serving" in sidecar.log.read_text()


def test_a_sidecar_that_dies_says_why(tmp_path):
    class Dying(FakeSidecar):
        program = "raise SystemExit('no such folder')"

    with pytest.raises(SidecarError, match=r"(?s)died at its start.*no such folder"), Dying("", Path(), tmp_path):
        pass


def test_the_stopwatch_tells_where_the_time_went():
    lines = []
    watch = Stopwatch(lines.append)
    with watch.stage("engines"):
        pass
    with pytest.raises(ValueError, match="lab"), watch.stage("lab"):
        raise ValueError("lab")
    assert [line.split("] ")[1] for line in lines] == ["engines ...", "lab ..."]
    assert watch.summary().startswith("time: engines 0.0 s, lab 0.0 s; 0.0 s in all")
