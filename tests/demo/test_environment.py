"""Setting up the engine's environment: what a person is told when it can't be done."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from hicache_proof.demo import environment
from hicache_proof.demo.errors import SetupError
from hicache_proof.demo.store import cache_root


@pytest.fixture(autouse=True)
def empty_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HICACHE_WITNESS_CACHE", str(tmp_path / "cache"))


def interpreter(folder: Path, script: str) -> str:
    program = folder / "python"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    return str(program)


@pytest.mark.parametrize("demand", [environment.ensure, lambda: environment.extra("triton")], ids=["engine", "extra"])
def test_a_cache_folder_that_can_not_be_made_is_told_with_the_variable_to_set(
    demand: Callable[[], object], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    in_the_way = tmp_path / "file"
    in_the_way.write_text("")
    monkeypatch.setenv("HICACHE_WITNESS_CACHE", str(in_the_way / "cache"))
    with pytest.raises(
        SetupError, match=r"/file/cache can't be used \(Not a directory\); set HICACHE_WITNESS_CACHE to"
    ):
        demand()


def test_an_unknown_release_is_refused_with_the_known_ones() -> None:
    with pytest.raises(SetupError, match=r"0\.4\.1 is not among the known releases: 0\.5\.9, .*0\.5\.23"):
        environment.ensure("0.4.1")


def test_a_failed_step_shows_the_end_of_its_log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", interpreter(tmp_path, "echo no space left >&2; exit 3"))
    said: list[str] = []
    with pytest.raises(SetupError) as failure:
        environment.ensure(say=said.append)
    assert "creating a virtual environment failed (exit 3)" in str(failure.value)
    assert str(failure.value).endswith("no space left")
    assert said[-1] == "creating a virtual environment ..."
    assert not list((cache_root() / "engine").glob("*.building"))


PIP = """#!/bin/sh
echo "$@" >> {log}
"""
VENV = """
for folder in "$@"; do :; done
mkdir -p "$folder/bin" && cp {pip} "$folder/bin/python"
"""


def test_what_is_installed_is_hashed_but_torch_and_installed_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log, pip = tmp_path / "log", tmp_path / "pip"
    pip.write_text(PIP.format(log=log))
    pip.chmod(0o755)
    monkeypatch.setattr(sys, "executable", interpreter(tmp_path, VENV.format(pip=pip)))
    said: list[str] = []
    first = environment.ensure("0.5.16", said.append)
    commands = log.read_text().splitlines()
    installs = [command for command in commands if " pip install " in command]
    assert len(installs) == 4  # what SGLang needs, torch, SGLang, its older transformers
    assert [command for command in installs if "--require-hashes" not in command] == [
        next(command for command in installs if command.endswith("torch==2.13.0"))
    ]
    assert first.python.is_file()
    assert [path.name.rpartition("-")[0] for path in first.paths] == ["sglang-0.5.16", "transformers-5.12.1"]

    said.clear()
    assert environment.ensure("0.5.16", said.append) == first
    assert (said, log.read_text().splitlines()) == ([], commands)
