"""What a user gets who installs the wheel: only the wheel, and commands that work or say what they need."""

from __future__ import annotations

import os
import subprocess
import sys
import venv
from pathlib import Path

import pytest

from hicache_proof.demo.environment import ensure

from .conftest import Release

PIP = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check"]


def run(command: list[str], **variables: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, **variables}
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=100, check=False)


def freeze(python: Path) -> set[str]:
    listed = run([*PIP, "--python", str(python), "freeze", "--all"])
    assert listed.returncode == 0, listed.stderr
    return set(listed.stdout.splitlines())


def install(python: Path, *what: str) -> None:
    done = run([*PIP, "--python", str(python), "install", "--no-index", *what])
    assert done.returncode == 0, done.stderr


def environment(folder: Path, *, sees: Path | None = None) -> Path:
    """The Python of a new environment; ``sees``: a site-packages folder whose packages are there too."""
    venv.create(folder, with_pip=False, symlinks=True)
    if sees is not None:
        (site,) = folder.glob("lib/python*/site-packages")
        (site / "engine.pth").write_text(f"{sees}\n")
    return folder / "bin" / "python"


@pytest.fixture(scope="session")
def bare(release: Release, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """``bin`` of an environment with the wheel and no other package."""
    python = environment(tmp_path_factory.mktemp("bare") / "venv")
    install(python, str(release.wheel))
    return python.parent


def test_in_an_empty_environment_it_is_the_only_package(bare: Path) -> None:
    (only,) = freeze(bare / "python")
    assert only.startswith("hicache-witness @ file:")


@pytest.mark.engine
def test_in_sglangs_environment_it_changes_no_other_package(release: Release, tmp_path: Path) -> None:
    sglang = ensure("0.5.23")
    python = environment(tmp_path / "venv", sees=next(Path(sglang.python).parents[1].glob("lib/python*/site-packages")))
    before = freeze(python)
    assert len(before) > 50, "the engine's packages are seen"
    install(python, str(release.wheel))
    after = freeze(python)
    assert before - after == set()
    (added,) = after - before
    assert added.startswith("hicache-witness")


@pytest.mark.parametrize("command", [["hicache-witness"], ["python", "-m", "hicache_exporter"]], ids=" ".join)
def test_without_the_exporters_packages_it_says_how_to_get_them(bare: Path, command: list[str]) -> None:
    said = run([str(bare / command[0]), *command[1:], "serve"])
    assert said.returncode == 2
    assert "pip install" in said.stderr
    assert "Traceback" not in said.stderr


def test_it_tells_its_version_without_any_other_package(bare: Path, release: Release) -> None:
    said = run([str(bare / "hicache-witness"), "--version"])
    assert said.stdout == f"hicache-witness, version {release.wheel.name.split('-')[1]}\n"


def test_launch_needs_no_other_package(bare: Path) -> None:
    said = run([str(bare / "hicache-witness"), "launch", "--", "env"])
    assert said.returncode == 0, said.stderr
    assert "HICACHE_WITNESS=1" in said.stdout.splitlines()


def test_the_plugin_is_found_by_the_entry_point_that_sglang_looks_at(bare: Path) -> None:
    program = (
        "from importlib.metadata import entry_points\n"
        "(one,) = entry_points(group='sglang.srt.plugins')\n"
        "one.load()()\n"
        "import sys; print(one.name, [name for name in sys.modules if name.startswith('hicache')])"
    )
    said = run([str(bare / "python"), "-c", program], HICACHE_WITNESS="0")
    assert said.stdout == "hicache_witness ['hicache_tracing']\n", said.stderr


def test_the_manual_is_where_man_looks(bare: Path) -> None:
    assert "SYNOPSIS" in (bare.parent / "share/man/man1/hicache-witness-serve.1").read_text()


def completed(line: str, **variables: str) -> list[str]:
    words = {"COMP_WORDS": line, "COMP_CWORD": str(len(line.split(" ")) - 1)}
    command = str(Path(sys.executable).with_name("hicache-witness"))
    said = run([command], **words, _HICACHE_WITNESS_COMPLETE="bash_complete", **variables)
    assert said.stderr == ""
    return [answer.removeprefix("plain,") for answer in said.stdout.splitlines()]


def test_the_shell_completes_subcommands_and_their_options() -> None:
    assert completed("hicache-witness do") == ["doctor"]
    assert completed("hicache-witness verify --h") == ["--help"]


def test_completion_is_silent_about_what_is_not_installed(tmp_path: Path) -> None:
    (tmp_path / "scipy.py").write_text("raise ModuleNotFoundError(name='scipy')")  # as where the lab's packages are not
    assert "lab" in completed("hicache-witness ", PYTHONPATH=str(tmp_path))
    assert "--dry-run" not in completed("hicache-witness lab --", PYTHONPATH=str(tmp_path))
    assert "--dry-run" in completed("hicache-witness lab --")
