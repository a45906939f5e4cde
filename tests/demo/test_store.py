"""A folder of the cache is whole or not there, whatever happens while it is built."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from hicache_proof.demo.store import build_once, cache_root


def silent(_line: str) -> None:
    pass


def test_is_built_once(tmp_path: Path) -> None:
    builds = []

    def build(scratch: Path) -> None:
        builds.append(scratch)
        (scratch / "content").write_text("whole")

    for _ in range(2):
        folder = build_once(tmp_path / "cache" / "thing", build, silent)
        assert (folder / "content").read_text() == "whole"
    assert len(builds) == 1


def test_a_build_that_fails_leaves_nothing(tmp_path: Path) -> None:
    def build(scratch: Path) -> None:
        (scratch / "half").write_text("")
        raise ValueError("no network")

    with pytest.raises(ValueError, match="no network"):
        build_once(tmp_path / "thing", build, silent)
    assert [path.name for path in tmp_path.iterdir()] == ["thing.lock"]


BUILDER = """
import sys, time
from pathlib import Path
from hicache_proof.demo.store import build_once

def build(scratch):
    with open(sys.argv[2], "a") as log:
        log.write("begin\\n")
    (scratch / "half").write_text("")
    time.sleep(float(sys.argv[3]))
    (scratch / "content").write_text("whole")

build_once(Path(sys.argv[1]), build, lambda line: print(line, flush=True))
"""


def start_builder(folder: Path, log: Path, seconds: float) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", BUILDER, str(folder), str(log), str(seconds)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def wait_until_it_builds(log: Path) -> None:
    deadline = time.monotonic() + 20
    while not log.exists() or not log.read_text():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_a_build_that_is_killed_is_begun_anew(tmp_path: Path) -> None:
    folder, log = tmp_path / "thing", tmp_path / "log"
    with start_builder(folder, log, 60) as builder:
        wait_until_it_builds(log)
        os.kill(builder.pid, signal.SIGKILL)
    assert not folder.exists()
    with start_builder(folder, log, 0) as builder:
        builder.communicate()
    assert (folder / "content").read_text() == "whole"
    assert not (folder.with_name("thing.building")).exists()


def test_of_two_builders_one_builds_and_the_other_waits(tmp_path: Path) -> None:
    folder, log = tmp_path / "thing", tmp_path / "log"
    with start_builder(folder, log, 2) as first:
        wait_until_it_builds(log)
        with start_builder(folder, log, 0) as second:
            said, _ = second.communicate()
        first.communicate()
    assert said == "another process is building thing: waiting for it\n"
    assert first.returncode == second.returncode == 0
    assert log.read_text() == "begin\n"


@pytest.mark.parametrize(
    ("variables", "root"),
    [
        ({"HICACHE_WITNESS_CACHE": "/own", "XDG_CACHE_HOME": "/xdg", "HOME": "/home/me"}, "/own"),
        ({"XDG_CACHE_HOME": "/xdg", "HOME": "/home/me"}, "/xdg/hicache-witness"),
        ({"HOME": "/home/me"}, "/home/me/.cache/hicache-witness"),
        ({"XDG_CACHE_HOME": "", "HOME": "/home/me"}, "/home/me/.cache/hicache-witness"),
    ],
)
def test_where_the_cache_is(monkeypatch: pytest.MonkeyPatch, variables: dict[str, str], root: str) -> None:
    for name in ("HICACHE_WITNESS_CACHE", "XDG_CACHE_HOME", "HOME"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert cache_root() == Path(root)
