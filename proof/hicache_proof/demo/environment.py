"""SGLang for a machine without a GPU: installed once into a cache folder, found there ever after.

One virtual environment holds torch and what all releases share; each SGLang release lies in a folder of its own that
is put on ``PYTHONPATH``. All of it is pinned by hash but torch, which is pinned by version: its file differs by
platform. SGLang's own requirements are mostly CUDA packages, so only what a text server on CPU imports is installed.
"""

from __future__ import annotations

import hashlib
import platform
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from hicache_proof.demo import model
from hicache_proof.demo.errors import SetupError
from hicache_proof.demo.releases import NEWEST, RELEASES, Release
from hicache_proof.demo.store import Say, build_once, cache_root, usable

TORCH = "torch==2.13.0"
LOCKS = Path(__file__).parent / "locks"


@dataclass(frozen=True, slots=True)
class Environment:
    release: Release
    python: Path
    """The interpreter that runs the engine."""
    paths: tuple[Path, ...]
    """Folders for ``PYTHONPATH``, first to last."""
    model: Path
    """Folder of the tiny model."""


def ensure(version: str = NEWEST, say: Say | None = None) -> Environment:
    """The environment of an SGLang release, installed first if need be. Raises SetupError.

    ``say`` takes lines of progress; by default they go to stderr.
    """
    say = say or _say_on_stderr
    release = RELEASES.get(version)
    if release is None:
        raise SetupError(f"SGLang {version} is not among the known releases: {', '.join(RELEASES)}")
    with usable(cache_root()) as root:
        python = _base(root, say) / "bin" / "python"
        paths = tuple(_layer(root, python, lock, say) for lock in release.locks)
        return Environment(release, python, paths, _model(root, python, say))


def extra(lock: str, say: Say | None = None) -> Path:
    """A folder for ``PYTHONPATH`` with the packages of one more lock. Raises SetupError."""
    say = say or _say_on_stderr
    with usable(cache_root()) as root:
        return _layer(root, _base(root, say) / "bin" / "python", lock, say)


def _base(root: Path, say: Say) -> Path:
    lock = LOCKS / "engine.txt"

    def build(scratch: Path) -> None:
        say("setting up the demo engine's environment, once: about 1.3 GB, a minute or two")
        step = _Steps(root, "environment", say)
        step("creating a virtual environment", [sys.executable, "-I", "-m", "venv", str(scratch)])
        pip = _pip(scratch / "bin" / "python")
        step("installing what SGLang needs", [*pip, "--no-deps", "--require-hashes", "-r", str(lock)])
        step(f"installing {TORCH}", [*pip, TORCH])

    return build_once(root / "engine" / f"base-{_key(lock.read_text(), TORCH)}", build, say)


def _layer(root: Path, python: Path, name: str, say: Say) -> Path:
    """A folder that holds just the packages of one lock."""
    lock = LOCKS / f"{name}.txt"

    def build(scratch: Path) -> None:
        install = [*_pip(python), "--no-deps", "--require-hashes", "--only-binary", ":all:", "-r", str(lock)]
        _Steps(root, name, say)(f"installing {name}", [*install, "--target", str(scratch)])

    return build_once(root / "engine" / f"{name}-{_key(lock.read_text())}", build, say)


def _model(root: Path, python: Path, say: Say) -> Path:
    source = Path(model.__file__)

    def build(scratch: Path) -> None:
        write = [str(python), "-I", str(source), str(scratch)]
        _Steps(root, "model", say)("writing a tiny model", write)

    return build_once(root / "model" / _key(source.read_text(), TORCH), build, say)


def _key(*parts: str) -> str:
    """Short name of what was built from these, for this interpreter and machine."""
    python = f"{sys.implementation.cache_tag} {platform.machine()}"
    return hashlib.sha256("\0".join((python, *parts)).encode()).hexdigest()[:12]


def _pip(python: Path) -> list[str]:
    # Modules are compiled when first imported: most of what is installed never is.
    return [str(python), "-I", "-m", "pip", "install", "--no-compile", "--no-input", "--disable-pip-version-check"]


class _Steps:
    """Runs commands one after the other: one line each for a person, all their output into a log."""

    def __init__(self, root: Path, name: str, say: Say) -> None:
        self.log = root / "logs" / f"{name}.log"
        self.log.parent.mkdir(parents=True, exist_ok=True)
        self.log.unlink(missing_ok=True)
        self.say = say

    def __call__(self, what: str, command: list[str]) -> None:
        self.say(f"{what} ...")
        began = time.monotonic()
        with self.log.open("a") as log:
            print(f"$ {' '.join(command)}", file=log, flush=True)
            code = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, check=False).returncode
        if code != 0:
            raise SetupError(f"{what} failed (exit {code}). Its log, {self.log}, ends with:\n{tail(self.log)}")
        self.say(f"{what}: done in {time.monotonic() - began:.0f} s")


def tail(log: Path, lines: int = 15) -> str:
    return "\n".join(log.read_text(errors="replace").splitlines()[-lines:])


def _say_on_stderr(line: str) -> None:
    print(line, file=sys.stderr, flush=True)
