"""``hicache-witness launch``: becomes the command, with the plugin's switch and settings in its environment."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import hicache_tracing
from hicache_tracing import launch

SITE = str(Path(launch.__file__).parent / "launch_site")
PRINT = "import os; print(*(os.environ.get(name) for name in ('HICACHE_WITNESS', 'HICACHE_WITNESS_DIR', {})))"
SHOW = [sys.executable, "-S", "-c", PRINT.format("'HICACHE_WITNESS_CONTENT'")]


def launched(*arguments: str) -> subprocess.CompletedProcess[str]:
    here = str(Path(hicache_tracing.__file__).parents[1])
    clean = {name: value for name, value in os.environ.items() if not name.startswith("HICACHE_WITNESS")}
    return subprocess.run(
        [sys.executable, "-m", "hicache_tracing.launch", *arguments],
        env={**clean, "PYTHONPATH": here},
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ((), "1 None None"),
        (("--dir", "/rings"), "1 /rings None"),
        (("--content=full", "--dir=/rings"), "1 /rings full"),
        (("--content", "sampled"), "1 None sampled"),
    ],
    ids=str,
)
def test_the_command_gets_the_settings(options, says):
    done = launched(*options, "--", *SHOW)
    assert (done.returncode, done.stdout.strip(), done.stderr) == (0, says, "")


def test_its_exit_code_is_the_commands_own():
    assert launched("--", sys.executable, "-S", "-c", "raise SystemExit(7)").returncode == 7


def test_our_sitecustomize_comes_before_what_was_on_the_path():
    assert launch.environment({"PYTHONPATH": "/theirs"})["PYTHONPATH"] == f"{SITE}{os.pathsep}/theirs"
    assert launch.environment({})["PYTHONPATH"] == SITE


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        ((), 2, "put the engine's command after --"),
        (("--content", "full", "--"), 2, "put the engine's command after --"),
        (("python3", "-c", "pass"), 2, "put the engine's command after --"),
        (("--content", "everything", "--", "python3"), 2, "--content is off, sampled or full, not 'everything'"),
        (("--content", "--", "python3"), 2, "--content is off, sampled or full, not '--'"),
        (("--", "no-such-engine"), 127, "no-such-engine: no such command"),
    ],
    ids=str,
)
def test_a_mistake_is_one_sentence_and_no_engine_starts(arguments, code, says):
    done = launched(*arguments)
    assert (done.returncode, done.stdout) == (code, "")
    assert says in done.stderr
    assert "Traceback" not in done.stderr
