"""The first command that a visitor gives."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from hicache_proof.lab.run import LabRun
from hicache_proof.verify import verify

pytestmark = [pytest.mark.engine, pytest.mark.timeout(600)]


def demo(folder: Path, *arguments: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "hicache_exporter", "demo", "--out", str(folder), *arguments]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def at_work_in(folder: Path) -> list[str]:
    """Processes whose working directory lies in the folder: engines are started in theirs."""
    found = []
    for link in Path("/proc").glob("[0-9]*/cwd"):
        try:
            if link.readlink().is_relative_to(folder):
                found.append((link.parent / "cmdline").read_text())
        except OSError:
            continue
    return found


def test_it_proves_one_read_writes_its_report_and_leaves_nothing_running(tmp_path):
    running = demo(tmp_path, "--json")
    stdout, stderr = running.communicate()
    assert running.returncode == 0, stderr
    run = msgspec.json.decode(stdout, type=LabRun)
    assert (run.outcome.verdict, run.outcome.content) == ("corroborated", "intact")
    assert run.of("C")[0].evidence.control.kind == "hicache_off"
    assert run.answers.markers.followed == run.answers.markers.recalled == 3, "computed, from L1, and from L2"
    assert {request.judgement.served_by for request in run.of("B")} == {"device"}
    assert verify((tmp_path / "certificate.json").read_bytes()).holds
    assert (tmp_path / "report.html").read_text().count("<svg") == 2
    assert "time: environment" in stderr
    assert not at_work_in(tmp_path)


@pytest.mark.parametrize("stage", ["both engines", "lab ..."])
def test_ctrl_c_ends_everything_that_it_started(tmp_path, stage):
    running = demo(tmp_path)
    for line in running.stderr:
        if stage in line:
            break
    running.send_signal(signal.SIGINT)
    _, stderr = running.communicate(timeout=60)
    assert running.returncode == 130, stderr
    assert "nothing of it is left running" in stderr
    assert not at_work_in(tmp_path)
