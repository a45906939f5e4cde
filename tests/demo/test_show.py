"""Starting everything together, and leaving nothing behind."""

from __future__ import annotations

import subprocess
import sys
import threading
from pathlib import Path
from typing import NamedTuple

import httpx
import pytest

from hicache_proof.demo import show
from hicache_proof.demo.engine import Engine, EngineSpec
from hicache_proof.demo.errors import EndedError, EngineError, SidecarError
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
    assert sidecar.log.read_text().startswith("serving\n")  # nothing of ours before it


def test_a_sidecar_that_dies_says_why(tmp_path):
    class Dying(FakeSidecar):
        program = "raise SystemExit('no such folder')"

    with pytest.raises(SidecarError, match=r"(?s)died at its start.*no such folder"), Dying("", Path(), tmp_path):
        pass


class Kept(NamedTuple):
    ended: str | None = None
    url: str = "http://127.0.0.1:1"


@pytest.mark.parametrize(
    ("part", "name"), [("engine", "the engine"), ("control", "the control"), ("sidecar", "metrics and proofs")]
)
def test_what_ends_while_it_is_kept_is_named(part, name, monkeypatch):
    monkeypatch.setattr(show, "LOOK_SECONDS", 0)
    looks = iter((None, None, None, *[f"{part} ended with exit code 137"] * 2))

    class Dying(Kept):
        ended = property(lambda self: next(looks))

    stage = show.Stage(**{"engine": Kept(), "control": Kept(), "sidecar": Kept(), part: Dying()})
    with pytest.raises(EndedError, match=f"{name} at http://127.0.0.1:1 is gone: {part} ended with exit code 137"):
        show.keep(stage)


def test_an_ended_sidecar_and_an_ended_engine_say_how_and_show_their_log(tmp_path):
    class ShortLived(FakeSidecar):
        program = SERVER.replace("serve_forever()", "handle_request(); raise SystemExit('no more')")

    with ShortLived("", Path(), tmp_path) as sidecar:
        sidecar._process.wait(timeout=20)
        assert f"exit code 1. Its log, {sidecar.log}, ends with:" in sidecar.ended
        assert sidecar.ended.endswith("no more")
    engine = Engine(EngineSpec(), tmp_path)
    assert engine.ended is None  # not started
    engine.log.write_text("Killed")
    engine._leash = subprocess.Popen([sys.executable, "-c", "raise SystemExit(137)"], stdin=subprocess.PIPE)
    engine._leash.wait(timeout=20)
    assert engine.ended == f"SGLang {engine.spec.version} ended with exit code 137. {engine._last_words()}"
    engine.close()
    assert engine.ended is None


def test_the_stopwatch_tells_where_the_time_went():
    lines = []
    watch = Stopwatch(lines.append)
    with watch.stage("engines"):
        pass
    with pytest.raises(ValueError, match="lab"), watch.stage("lab"):
        raise ValueError("lab")
    assert [line.split("] ")[1] for line in lines] == ["engines ...", "lab ..."]
    assert watch.summary().startswith("time: engines 0.0 s, lab 0.0 s; 0.0 s in all")
