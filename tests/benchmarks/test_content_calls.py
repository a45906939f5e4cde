"""What comparisons cost is told by operation, and only where the ring says how many there were."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from hicache_tracing.recorder import Recorder
from hicache_tracing.records import ContentMode, Direction, Kind

sys.path.append(str(Path(__file__).parents[2] / "benchmarks"))

import content_calls

FULL = ContentMode.FULL


@pytest.fixture
def recorder(tmp_path: Path) -> Recorder:
    return Recorder(str(tmp_path / "rings"), 1024)


def transfer(recorder: Recorder, number: int, operations: int) -> None:
    recorder.write(Kind.TRANSFER, b"", number, Direction.HOST_TO_DEVICE, operations, 64 * operations, 0, 1, 0)


def comparison(recorder: Recorder, number: int, rows: int, cost_ns: int) -> None:
    recorder.write(Kind.CONTENT, b"", number, rows, 0, 3, FULL, 56, cost_ns)


def told(recorder: Recorder, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setattr(sys, "argv", ["content_calls.py", "--rings", str(Path(recorder.path).parent)])
    assert content_calls.main() == 0
    return capsys.readouterr().out


def test_a_transfer_of_several_operations_is_shared_among_them(recorder, capsys, monkeypatch) -> None:
    transfer(recorder, 1, operations=1)
    transfer(recorder, 2, operations=3)
    comparison(recorder, 1, 64, 50_000)
    comparison(recorder, 2, 192, 90_000)
    found = content_calls.read(Path(recorder.path).parent)
    assert [(one.us, one.operations, one.rows) for one in found] == [(50, 1, 64), (90, 3, 192)]
    assert "35 µs an operation" in told(recorder, capsys, monkeypatch)


def test_what_was_never_launched_and_what_the_ring_has_lost_are_left_out(recorder) -> None:
    transfer(recorder, 1, operations=1)
    comparison(recorder, 1, 64, 0)
    comparison(recorder, 7, 64, 50_000)
    assert content_calls.read(Path(recorder.path).parent) == []


def test_no_comparison_is_no_figure(recorder, capsys, monkeypatch) -> None:
    transfer(recorder, 1, operations=1)
    with pytest.raises(SystemExit, match="no comparison in the rings"):
        told(recorder, capsys, monkeypatch)


def test_a_folder_that_is_not_there_is_said(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(sys, "argv", ["content_calls.py", "--rings", str(tmp_path / "none")])
    with pytest.raises(SystemExit, match="No such file"):
        content_calls.main()
