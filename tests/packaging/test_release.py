"""The wheel and the sdist: the same bytes twice, nothing forgotten, nothing needed."""

from __future__ import annotations

import json
import os
import re
import subprocess
import tarfile
import zipfile
from email.message import Message
from email.parser import Parser
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from .conftest import ROOT, Release, build, digest, unpacked

PACKAGES = ("tracing_patch/hicache_tracing", "exporter/hicache_exporter", "proof/hicache_proof",
            "dashboards/hicache_dashboards")  # fmt: skip


def tracked() -> set[str]:
    """The repository's files, as git knows them."""
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True).stdout.split()
    return {name for name in listed if (ROOT / name).exists()}


def metadata(wheel: Path) -> Message:
    with zipfile.ZipFile(wheel) as archive:
        (name,) = [name for name in archive.namelist() if name.endswith(".dist-info/METADATA")]
        return Parser().parsestr(archive.read(name).decode())


@pytest.mark.parametrize("kind", ["wheel", "sdist"])
def test_built_again_elsewhere_it_is_the_same_to_the_byte(release: Release, tmp_path: Path, kind: str) -> None:
    source = unpacked(release.sdist, tmp_path / "source")
    for path in source.rglob("*.py"):
        os.utime(path, (1_500_000_000, 1_500_000_000))
    released = getattr(release, kind)
    assert build(source, tmp_path / "again", kind, release.epoch) == (released.name, digest(released))


def test_the_only_time_in_it_is_that_of_the_commit(release: Release, tmp_path: Path) -> None:
    _, later = build(unpacked(release.sdist, tmp_path / "source"), tmp_path / "later", "wheel", release.epoch + 86_400)
    assert later != digest(release.wheel)


def test_the_wheel_has_every_file_of_the_packages(release: Release) -> None:
    with zipfile.ZipFile(release.wheel) as archive:
        shipped = set(archive.namelist())
    there = {
        str(Path(name).relative_to(Path(package).parent))
        for package in PACKAGES
        for name in tracked()
        if name.startswith(package)
    }
    assert len(there) > 200
    assert there - shipped == set()


def test_the_wheel_has_the_manual_and_nothing_else_beside_the_packages(release: Release) -> None:
    with zipfile.ZipFile(release.wheel) as archive:
        beside = [name for name in archive.namelist() if not name.startswith(tuple(p.split("/")[1] for p in PACKAGES))]
    outside = [name for name in beside if ".dist-info/" not in name]
    assert outside
    assert all(re.search(r"\.data/data/share/man/man1/hicache-witness(-\w+)?\.1$", name) for name in outside), outside


def test_the_sdist_has_what_git_has(release: Release) -> None:
    with tarfile.open(release.sdist) as archive:
        shipped = {name.partition("/")[2] for name in archive.getnames()}
    assert "PKG-INFO" in shipped
    assert tracked() - shipped == set()


def test_it_asks_an_engines_environment_for_nothing(release: Release) -> None:
    needed = [Requirement(text) for text in metadata(release.wheel).get_all("Requires-Dist") or ()]
    assert needed, "the extras are there"
    assert [str(one) for one in needed if one.marker is None or one.marker.evaluate({"extra": ""})] == []


def test_its_version_is_the_one_that_git_tells(release: Release) -> None:
    version = metadata(release.wheel)["Version"]
    described = subprocess.run(["git", "describe", "--tags", "--match=v*"], cwd=ROOT, capture_output=True, text=True,
                               check=False).stdout.strip()  # fmt: skip
    if re.fullmatch(r"v[\d.]+", described):
        assert version.partition("+")[0].startswith(described[1:].rpartition(".")[0])
    else:
        assert re.match(r"\d+\.\d+\.\d+\.dev\d+(\+|$)", version)


def test_a_folder_without_git_can_be_built(release: Release, tmp_path: Path) -> None:
    """What an image's build sees, and who downloads an archive: neither git nor PKG-INFO."""
    source = unpacked(release.sdist, tmp_path / "source")
    (source / "PKG-INFO").unlink()
    name, _ = build(source, tmp_path / "built", "wheel", release.epoch)
    assert name.startswith("hicache_witness-0.1.0.dev0-")


def test_the_bill_of_materials_names_every_locked_package(release: Release) -> None:
    lock = (ROOT / "requirements/sidecar.txt").read_text()
    locked = set(re.findall(r"^([a-z0-9-]+)==([^\s;]+)", lock, re.MULTILINE))
    told = json.loads(release.sbom.read_text())
    assert told["bomFormat"] == "CycloneDX"
    assert {(one["name"], one["version"]) for one in told["components"]} == locked
