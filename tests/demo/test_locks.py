"""What is installed is pinned: every lock has hashes, names no index, and covers what the project asks for."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest
from packaging.markers import default_environment
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from hicache_proof.demo.environment import LOCKS
from hicache_proof.demo.releases import NEWEST, RELEASES

ROOT = Path(__file__).parents[2]
DEV = ROOT / "requirements" / "dev.txt"
ALL = [lock for folder in (DEV.parent, LOCKS) for lock in sorted(folder.glob("*.txt")) if "overrides" not in lock.name]
PIN = re.compile(r"^(?P<requirement>[^\s#][^\\#]*?)\s*\\?$((?:\n\s+--hash=sha256:[0-9a-f]{64}\s*\\?)*)", re.MULTILINE)


def pins(lock: Path) -> list[tuple[Requirement, int]]:
    """Each locked requirement and its number of hashes."""
    return [(Requirement(name), hashes.count("sha256")) for name, hashes in PIN.findall(lock.read_text())]


@pytest.mark.parametrize("lock", ALL, ids=lambda lock: lock.name)
def test_every_requirement_is_one_version_with_hashes(lock: Path) -> None:
    assert pins(lock)
    for requirement, hashes in pins(lock):
        assert re.fullmatch(r"==[^*,]+", str(requirement.specifier)), requirement
        assert hashes, requirement


@pytest.mark.parametrize("lock", ALL, ids=lambda lock: lock.name)
def test_no_index_is_named(lock: Path) -> None:
    assert not re.search(r"://|--(extra-)?index-url|--find-links|--trusted-host", lock.read_text())


@pytest.mark.parametrize("release", RELEASES.values(), ids=lambda release: release.version)
def test_each_release_has_its_locks(release) -> None:
    engine = pins(LOCKS / f"{release.locks[0]}.txt")
    assert [str(requirement) for requirement, _ in engine] == [f"sglang=={release.version}"]
    assert all((LOCKS / f"{name}.txt").is_file() for name in release.locks)
    assert list(RELEASES)[-1] == NEWEST


def test_the_dev_lock_satisfies_the_project() -> None:
    locked: dict[str, list[str]] = {}
    for requirement, _ in pins(DEV):
        if requirement.marker is None or requirement.marker.evaluate({**default_environment(), "extra": ""}):
            version = str(requirement.specifier).removeprefix("==")
            locked.setdefault(canonicalize_name(requirement.name), []).append(version)
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    asked = [*project["build-system"]["requires"]]
    for extra in project["project"]["optional-dependencies"].values():
        asked += extra
    for requirement in map(Requirement, asked):
        if requirement.name == "hicache-witness":
            continue
        versions = locked.get(canonicalize_name(requirement.name), [])
        assert any(requirement.specifier.contains(version) for version in versions), f"run `make lock`: {requirement}"
