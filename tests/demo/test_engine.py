"""Starting and ending an engine, with a stand-in for SGLang. tests/engine does it with the real one."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import pytest

from hicache_proof.demo import engine as engine_module
from hicache_proof.demo import ports, scratch
from hicache_proof.demo.engine import Engine, EngineSpec
from hicache_proof.demo.environment import Environment
from hicache_proof.demo.errors import EngineError
from hicache_proof.demo.processes import group_members
from hicache_proof.demo.releases import RELEASES

SERVER = """#!{python}
import http.server, sys, time
time.sleep(0.5)
port = int(sys.argv[sys.argv.index("--port") + 1])
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()
http.server.HTTPServer(("127.0.0.1", port), Handler).serve_forever()
"""
DYING = """#!/bin/sh
echo cannot allocate memory >&2
exit 1
"""
SILENT = """#!/bin/sh
sleep 60
"""


@pytest.fixture
def stand_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    def install(script: str) -> None:
        program = tmp_path / "engine-python"
        program.write_text(script.format(python=sys.executable))
        program.chmod(0o755)
        installed = Environment(RELEASES["0.5.23"], program, (), tmp_path)
        monkeypatch.setattr(engine_module.environment, "ensure", lambda _version, _say: installed)

    return install


def test_serves_while_wanted_and_leaves_nothing(stand_in, tmp_path: Path) -> None:
    stand_in(SERVER)
    with Engine(EngineSpec(), tmp_path / "run") as engine:
        assert engine.alive
        assert httpx.get(engine.url).status_code == 200
        assert engine.rings.is_dir()
        group = engine.pids[0]
        environment = Path(f"/proc/{group}/environ").read_text().split("\0")
        assert f"HICACHE_WITNESS_DIR={engine.rings}" in environment
    assert not engine.alive
    assert group_members(group) == []
    assert not engine.rings.exists()


def test_rings_survive_a_kill_until_it_is_closed(stand_in, tmp_path: Path) -> None:
    stand_in(SERVER)
    engine = Engine(EngineSpec(), tmp_path / "run").start()
    (engine.rings / "1-1.ring").touch()
    engine.kill()
    assert not engine.alive
    assert (engine.rings / "1-1.ring").exists()
    engine.close()
    assert not engine.rings.exists()


def test_what_a_killed_run_left_behind_goes_with_the_next_one(stand_in, tmp_path: Path, monkeypatch) -> None:
    stand_in(SERVER)
    monkeypatch.setattr(scratch, "SHARED_MEMORY", tmp_path)
    with subprocess.Popen(["/bin/true"]) as dead:
        pass
    left, in_use = tmp_path / f"hicache-demo-{dead.pid}-x", tmp_path / f"hicache-demo-{os.getpid()}-x"
    for folder in (left, in_use):
        (folder / "rings").mkdir(parents=True)
    with Engine(EngineSpec(), tmp_path / "run") as engine:
        assert engine.rings.is_relative_to(tmp_path)
    assert (left.exists(), in_use.exists()) == (False, True)


def test_death_at_the_start_is_noticed_at_once_and_quoted(stand_in, tmp_path: Path) -> None:
    stand_in(DYING)
    began = time.monotonic()
    with pytest.raises(EngineError, match=r"died at its start[^$]*cannot allocate memory$") as failure:
        Engine(EngineSpec(), tmp_path / "run").start()
    assert time.monotonic() - began < 10
    assert str(tmp_path / "run" / "engine.log") in str(failure.value)


def test_an_engine_that_never_serves_is_given_up_and_ended(stand_in, tmp_path: Path) -> None:
    stand_in(SILENT)
    engine = Engine(EngineSpec(), tmp_path / "run")
    with pytest.raises(EngineError, match="did not serve in time"):
        engine.start(deadline=1)
    assert engine.pids == []


def test_an_interrupt_while_it_starts_ends_it(stand_in, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stand_in(SILENT)

    def interrupt(*_args: object, **_kwargs: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(httpx, "get", interrupt)
    engine = Engine(EngineSpec(), tmp_path / "run")
    with pytest.raises(KeyboardInterrupt):
        engine.start()
    assert not engine.alive
    assert engine.pids == []


def test_closed_between_the_making_of_its_folders_it_says_so(stand_in, tmp_path: Path, monkeypatch) -> None:
    stand_in(SILENT)
    engine = Engine(EngineSpec(), tmp_path / "run")

    def closed_at_once() -> Path:
        engine.close()
        return tmp_path / "gone"

    monkeypatch.setattr("hicache_proof.demo.engine.make_scratch", closed_at_once)
    with pytest.raises(EngineError, match="closed while it was starting"):
        engine.start(deadline=60)
    assert engine.pids == engine.scheduler_pids == [], "nor anybody else's"


@pytest.mark.parametrize("after", [0.0, 0.5], ids=["before it is launched", "while it is awaited"])
def test_closed_from_another_thread_while_it_starts_it_gives_up(stand_in, tmp_path: Path, after: float) -> None:
    stand_in(SILENT)
    engine = Engine(EngineSpec(), tmp_path / "run")
    with ThreadPoolExecutor(1) as thread:
        started = thread.submit(engine.start, deadline=60)
        time.sleep(after)
        engine.close()
        with pytest.raises(EngineError, match=r"closed while it was starting|died at its start"):
            started.result(timeout=30)
    assert engine.pids == []


def test_engines_choose_ports_below_those_that_the_system_hands_out() -> None:
    ephemeral = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    if os.environ.get("CI") and ephemeral < 32768:
        pytest.skip("this machine hands out low ports")
    assert ports.PORTS.stop <= max(ephemeral, 32768)
