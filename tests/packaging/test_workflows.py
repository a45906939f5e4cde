"""The workflows: audited, and every action is a fixed commit."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from .conftest import ROOT

WORKFLOWS = sorted((ROOT / ".github/workflows").glob("*.yml"))
ZIZMOR = Path(sys.executable).with_name("zizmor")


def audit(folder: Path) -> subprocess.CompletedProcess[str]:
    command = [str(ZIZMOR), "--offline", "--no-progress", "--color=never", str(folder)]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


def test_nothing_is_found_in_an_audit() -> None:
    found = audit(ROOT / ".github")
    assert found.returncode == 0, found.stdout


def test_a_workflow_that_lets_a_title_run_as_a_command_is_found(tmp_path: Path) -> None:
    folder = tmp_path / ".github/workflows"
    folder.mkdir(parents=True)
    (folder / "bad.yml").write_text(
        "on: pull_request_target\njobs:\n  x:\n    runs-on: ubuntu-24.04\n    steps:\n"
        "      - run: echo ${{ github.event.pull_request.title }}\n"
    )
    found = audit(folder.parent)
    assert found.returncode != 0
    assert "template-injection" in found.stdout


@pytest.mark.parametrize("workflow", WORKFLOWS, ids=lambda path: path.name)
def test_every_action_is_a_fixed_commit(workflow: Path) -> None:
    used = re.findall(r"uses: (\S+)", workflow.read_text())
    assert used
    assert [action for action in used if not re.fullmatch(r"[\w./-]+@[0-9a-f]{40}", action)] == []


def test_a_release_is_tested_before_and_published_without_a_stored_token() -> None:
    jobs = yaml.safe_load((ROOT / ".github/workflows/release.yml").read_text())["jobs"]
    assert [step["run"] for step in jobs["build"]["steps"] if "run" in step] == ["bash .ci/run", "make dist"]
    assert "build" in jobs["pypi"]["needs"]
    assert jobs["pypi"]["permissions"] == {"id-token": "write"}
    assert "password" not in str(jobs["pypi"])
