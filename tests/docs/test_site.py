"""The pages as a site: every page has its place, every link and heading is there, or the build fails."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
MKDOCS = str(Path(sys.executable).with_name("mkdocs"))


def build(checkout: Path, site: Path) -> subprocess.CompletedProcess[str]:
    command = [MKDOCS, "build", "--strict", "--site-dir", str(site)]
    variables = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    return subprocess.run(
        command, cwd=checkout, env=variables, capture_output=True, text=True, timeout=100, check=False
    )


@pytest.fixture
def pages(tmp_path: Path) -> Path:
    """What the site is made of, to break it."""
    copy = tmp_path / "checkout"
    for folder in ("docs", "dashboards/runbooks"):
        shutil.copytree(ROOT / folder, copy / folder, ignore=shutil.ignore_patterns("__pycache__"))
    for path in [*ROOT.glob("*.md"), ROOT / "mkdocs.yml"]:
        shutil.copy(path, copy)
    return copy


def test_it_builds_without_a_warning(tmp_path: Path) -> None:
    built = build(ROOT, tmp_path)
    assert built.returncode == 0, built.stdout + built.stderr
    assert {"index.html", "overview/index.html", "guides/gpu/index.html"} <= {
        str(path.relative_to(tmp_path)) for path in tmp_path.rglob("index.html")
    }


def test_a_broken_link_and_a_page_without_a_place_stop_it(pages: Path, tmp_path: Path) -> None:
    (pages / "docs/lost.md").write_text("# Lost\n\n[nowhere](nowhere.md) [none](concepts.md#none)\n")
    built = build(pages, tmp_path / "site")
    assert built.returncode != 0
    for said in ("lost.md", "'nowhere.md'", "#none"):
        assert said in built.stdout + built.stderr
