"""What is read out of an engine's profile: whose kernel is whose, and whether the engine went on meanwhile."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).parents[2] / "benchmarks"))

import content_profile
from content_profile import Kernel, Read

COPY, FORWARD, OURS = 20, 7, 33


def event(name: str, stream: int, begin: float, took: float, cat: str = "kernel") -> dict[str, object]:
    return {"ph": "X", "cat": cat, "name": name, "ts": begin, "dur": took, "args": {"stream": stream}}


TRACE = [
    {"ph": "M", "name": "process_name", "args": {}},
    event("aten::mm", 0, 0, 900, cat="cpu_op"),
    event("transfer_kernel_impl", COPY, 100, 50),
    event("Memcpy HtoD (Pinned -> Device)", FORWARD, 105, 1, cat="gpu_memcpy"),
    event("transfer_kernel_impl", COPY, 160, 40),
    event("gemm", FORWARD, 120, 100),
    event("_compare", OURS, 204, 20),
    event("gemm", FORWARD, 219, 50),
]


def test_a_read_is_its_copies_its_comparison_and_the_engine() -> None:
    [read] = content_profile.reads(content_profile.kernels(TRACE))
    assert [copy.begin for copy in read.copies] == [100, 160]
    assert read.gap_us == 4
    assert {kernel.name for kernel in read.others} == {"gemm", "Memcpy HtoD (Pinned -> Device)"}


def test_in_which_order_a_profiler_writes_its_events_makes_no_difference() -> None:
    assert content_profile.kernels(TRACE[::-1]) == content_profile.kernels(TRACE)
    begins = [kernel.begin for kernel in content_profile.kernels(TRACE)]
    assert begins == sorted(begins)


def test_the_engine_went_on_during_all_of_it_counted_once_where_kernels_overlap() -> None:
    [read] = content_profile.reads(content_profile.kernels(TRACE))
    assert read.beside == pytest.approx(1.0)


@pytest.mark.parametrize(("others", "share"), [([], 0.0), ([(0, 100)], 0.0), ([(110, 115)], 0.25), ([(90, 300)], 1.0)])
def test_an_engine_that_waits_shows(others: list[tuple[float, float]], share: float) -> None:
    engine = [Kernel("gemm", FORWARD, *times) for times in others]
    read = Read([Kernel("transfer", COPY, 0, 90)], Kernel("_compare", OURS, 100, 120), engine)
    assert read.beside == pytest.approx(share)


def test_a_comparison_that_begins_too_early_shows() -> None:
    early = [event("_compare", OURS, 190, 20) if one["name"] == "_compare" else one for one in TRACE]
    [read] = content_profile.reads(content_profile.kernels(early))
    assert read.gap_us == -10


def test_with_the_direct_backend_the_copies_are_the_drivers() -> None:
    direct = [{**one, "name": "Memcpy HtoD"} if "transfer" in str(one["name"]) else one for one in TRACE[:-1]]
    direct = [one for one in direct if one.get("args", {}).get("stream") != FORWARD]
    [read] = content_profile.reads(content_profile.kernels(direct))
    assert len(read.copies) == 2


def test_a_backup_under_way_is_no_copy_of_the_read() -> None:
    [read] = content_profile.reads(content_profile.kernels([event("transfer_kernel_impl", 21, 90, 300), *TRACE]))
    assert [copy.begin for copy in read.copies] == [100, 160]


def test_it_is_drawn(tmp_path: Path) -> None:
    [read] = content_profile.reads(content_profile.kernels(TRACE))
    picture = tmp_path / "read.svg"
    content_profile.draw_read(read, picture, "a read")
    drawn = picture.read_text()
    assert all(lane in drawn for lane in content_profile.LANES)
