"""An engine's Python finds our plugin, and nothing else of ours, through the folders that we give it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from importlib.metadata import PackageNotFoundError
from pathlib import Path

import pytest

import hicache_tracing
from hicache_proof.demo import plugin_path
from hicache_proof.demo.errors import NotInstalledError
from hicache_proof.demo.plugin_path import make_plugin_paths

REPORT = """
import importlib.util, json
from importlib.metadata import entry_points
points = entry_points(group="sglang.srt.plugins")
print(json.dumps({
    "plugins": [[point.name, point.value, point.dist.name, point.load().__module__] for point in points],
    "others": [name for name in ("hicache_exporter", "click", "neighbour") if importlib.util.find_spec(name)],
}))
"""


def report(*folders: Path, code: str = REPORT) -> dict[str, list[object]]:
    """What a Python sees that has these folders and no site-packages."""
    environment = {"PYTHONPATH": os.pathsep.join(map(str, folders)), "PATH": os.environ["PATH"]}
    output = subprocess.run([sys.executable, "-S", "-P", "-c", code], env=environment, capture_output=True, check=True)
    return json.loads(output.stdout)


OURS = {
    "plugins": [["hicache_witness", "hicache_tracing:register", "hicache-witness", "hicache_tracing"]],
    "others": [],
}


def test_this_installation_offers_the_plugin_alone(tmp_path: Path) -> None:
    assert report(*make_plugin_paths(tmp_path / "plugin", plugin_loader=True)) == OURS


def test_an_installed_wheel_does_not_bring_its_neighbours(tmp_path: Path) -> None:
    site = tmp_path / "site-packages"
    (site / "neighbour").mkdir(parents=True)
    (site / "neighbour" / "__init__.py").touch()
    (site / "hicache_tracing").symlink_to(Path(hicache_tracing.__file__).parent)
    info = site / "hicache_witness-9.9.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: hicache-witness\nVersion: 9.9\n")
    (info / "entry_points.txt").write_text(
        "[console_scripts]\nhicache-witness = hicache_exporter.cli:main\n\n"
        "[sglang.srt.plugins]\nhicache_witness = hicache_tracing:register\n"
    )
    make = (
        "import json, pathlib; from hicache_proof.demo.plugin_path import make_plugin_paths;"
        f"print(json.dumps([str(p) for p in make_plugin_paths(pathlib.Path({str(tmp_path / 'plugin')!r}), True)]))"
    )
    paths = report(site, Path(plugin_path.__file__).parents[2], code=make)
    assert report(*map(Path, paths)) == OURS
    assert (tmp_path / "plugin" / "hicache_witness-9.9.dist-info").is_dir()


def test_without_a_plugin_loader_the_plugin_attaches_itself_at_start_up(tmp_path: Path) -> None:
    *_, site = make_plugin_paths(tmp_path / "plugin", plugin_loader=False)
    assert (site / "sitecustomize.py").is_file()


def test_a_checkout_that_was_not_installed_is_told_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def not_installed(name: str) -> None:
        raise PackageNotFoundError(name)

    monkeypatch.setattr(plugin_path, "distribution", not_installed)
    with pytest.raises(NotInstalledError, match="pip install -e"):
        make_plugin_paths(tmp_path / "plugin", plugin_loader=True)
