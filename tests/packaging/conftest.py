"""What a release consists of, built once by the command that a release uses."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import tarfile
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
BIN = Path(sys.executable).parent


@dataclass(frozen=True)
class Release:
    folder: Path
    epoch: int
    """Seconds since 1970: when its commit was made."""

    def _one(self, pattern: str) -> Path:
        (found,) = self.folder.glob(pattern)
        return found

    @property
    def wheel(self) -> Path:
        return self._one("*.whl")

    @property
    def sdist(self) -> Path:
        return self._one("*.tar.gz")

    @property
    def sbom(self) -> Path:
        return self._one("*.cdx.json")


@pytest.fixture(scope="session")
def release(tmp_path_factory: pytest.TempPathFactory) -> Release:
    """``make dist`` of this tree; the environment it runs in is the one that the tests run in."""
    folder = tmp_path_factory.mktemp("release")
    log = subprocess.run(["git", "log", "-1", "--format=%ct"], cwd=ROOT, capture_output=True, text=True, check=True)
    command = ["make", "--assume-old=setup", "dist", f"DIST={folder}", f"BIN={BIN}"]
    built = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=200, check=False)
    assert built.returncode == 0, built.stdout + built.stderr
    return Release(folder, int(log.stdout))


def build(source: Path, target: Path, kind: str, epoch: int) -> tuple[str, str]:
    """Name and digest of a ``wheel`` or ``sdist``, built in ``source`` as somebody would who has no git."""
    command = [sys.executable, "-m", "hatchling", "build", "-t", kind, "-d", str(target)]
    environment = {**os.environ, "SOURCE_DATE_EPOCH": str(epoch)}
    subprocess.run(command, cwd=source, env=environment, capture_output=True, timeout=100, check=True)
    (built,) = target.iterdir()
    return built.name, digest(built)


def digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def unpacked(sdist: Path, folder: Path) -> Path:
    with tarfile.open(sdist) as archive:
        archive.extractall(folder, filter="data")
    (top,) = folder.iterdir()
    return top
