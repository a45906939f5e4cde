"""What was started on the leash ends with the process that asked for it, with all its descendants."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from hicache_proof.demo import leash
from hicache_proof.demo.processes import group_members

FAMILY = """
import signal, subprocess, sys, time
if "stubborn" in sys.argv:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
if "parent" in sys.argv:
    subprocess.Popen([sys.executable, "-c", open(sys.argv[1]).read(), *sys.argv[1:2], *sys.argv[3:]])
time.sleep(60)
"""


@pytest.fixture
def family(tmp_path: Path) -> list[str]:
    """A command that has a child."""
    script = tmp_path / "family.py"
    script.write_text(FAMILY)
    return [sys.executable, str(script), str(script), "parent"]


def start(command: list[str]) -> tuple[subprocess.Popen[str], int]:
    process = subprocess.Popen(
        [sys.executable, leash.__file__, *command], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    return process, int(process.stdout.readline())


def wait_for_size(group: int, size: int, seconds: float = 20) -> None:
    deadline = time.monotonic() + seconds
    while len(group_members(group)) != size:
        assert time.monotonic() < deadline, group_members(group)
        time.sleep(0.02)


def test_ends_when_the_asker_lets_go(family: list[str]) -> None:
    process, group = start(family)
    wait_for_size(group, 2)
    process.communicate()
    assert group_members(group) == []
    assert process.returncode == 128 + signal.SIGTERM


def test_who_ignores_sigterm_is_killed_when_the_grace_is_over(family: list[str]) -> None:
    process, group = start([*family, "stubborn"])
    wait_for_size(group, 2)
    time.sleep(0.5)  # the child must have had time to turn stubborn
    began = time.monotonic()
    process.communicate()
    assert group_members(group) == []
    assert leash.GRACE <= time.monotonic() - began < leash.GRACE + 5


def test_kills_at_once_when_told(family: list[str]) -> None:
    process, group = start([*family, "stubborn"])
    wait_for_size(group, 2)
    time.sleep(0.5)
    began = time.monotonic()
    process.communicate("9")
    assert time.monotonic() - began < leash.GRACE
    assert group_members(group) == []
    assert process.returncode == 128 + signal.SIGKILL


def test_passes_the_exit_code_on_and_takes_the_orphans_along(family: list[str]) -> None:
    process, group = start(["/bin/sh", "-c", f"{' '.join(family)} & sleep 0.5; exit 7"])
    assert process.wait(timeout=20) == 7
    assert group_members(group) == []
    process.communicate()


def test_takes_the_whole_family_along_when_it_is_itself_asked_to_end(family: list[str]) -> None:
    process, group = start(family)
    wait_for_size(group, 2)
    process.terminate()
    wait_for_size(group, 0)
    process.communicate()


def test_takes_the_command_along_when_it_is_itself_killed(family: list[str]) -> None:
    """Its children it has to see to itself, as SGLang does."""
    process, group = start(family[:-1])
    wait_for_size(group, 1)
    process.kill()
    wait_for_size(group, 0)
    process.communicate()


ASKER = """
import subprocess, sys
process = subprocess.Popen(sys.argv[1:], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
print(process.stdout.readline(), flush=True)
process.wait()
"""


def test_ends_when_the_asker_is_killed(family: list[str]) -> None:
    command = [sys.executable, "-c", ASKER, sys.executable, leash.__file__, *family]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as asker:
        assert asker.stdout is not None
        group = int(asker.stdout.readline())
        wait_for_size(group, 2)
        os.kill(asker.pid, signal.SIGKILL)
        wait_for_size(group, 0)
