"""What a request passes, by the meter's files: a mean over the ranks of the engine that runs, and of no other."""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parents[2] / "benchmarks"))

from engine_calls import CELL, Meter


def passed(path: Path, calls: int, ns: int) -> None:
    """The process has passed its one seam so often by now."""
    path.write_bytes(CELL.pack(b"Scheduler.add_one_req", calls, ns).ljust(256 * CELL.size, b"\0"))


def test_a_rank_that_an_earlier_engine_left_behind_is_not_in_the_mean(tmp_path: Path) -> None:
    ranks = [tmp_path / f"{pid}.cells" for pid in (1, 2)]
    for path in (tmp_path / "99.cells", *ranks):
        passed(path, 10, 10_000)
    meter = Meter(tmp_path)
    meter.look()
    for path, ns in zip(ranks, (40_000, 60_000), strict=True):
        passed(path, 14, ns)
    seen = meter.look()
    assert seen.calls["Scheduler.add_one_req"] == 4
    assert seen.total_us == 40


def test_where_nothing_was_passed_there_is_nothing(tmp_path: Path) -> None:
    passed(tmp_path / "1.cells", 10, 10_000)
    meter = Meter(tmp_path)
    meter.look()
    assert meter.look().total_us == 0
