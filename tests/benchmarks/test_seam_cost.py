"""The seams of one request in the benchmark: all that are to tell something do, in the order of a request."""

import importlib
import inspect
import sys
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).parents[2] / "benchmarks"))

import seam_cost

from hicache_tracing.config import Settings
from hicache_tracing.records import Kind
from hicache_tracing.session import Session

from ..tracing.engines import importable


def test_every_seam_of_a_request_that_is_to_record_does_each_time(tmp_path: Path) -> None:
    session = Session(Settings(folder=str(tmp_path), capacity=1024))
    session.open()
    _, calls = seam_cost.request_seams(session)
    written: list[int] = []
    write = session.write

    def noted(kind: int, *rest: object, **more: object) -> None:
        written.append(kind)
        write(kind, *rest, **more)

    session.write = noted
    first = seam_cost.silent(session, calls)
    told = len(written)
    assert seam_cost.silent(session, calls) == first == seam_cost.QUIET
    assert written[told:] == [
        *(Kind.LOOKUP, Kind.LOAD_BACK, Kind.LOAD, Kind.TRANSFER, Kind.ADMIT, Kind.TRANSFER_DONE, Kind.FIRST_TOKEN),
        *(Kind.BACKUP, Kind.TRANSFER, Kind.TRANSFER_DONE, Kind.FINISH, Kind.EVICT, Kind.EVICT),
    ]
    assert not any(seam.faults for seam in session.seams)


def test_what_is_called_often_is_among_the_seams(tmp_path: Path) -> None:
    session = Session(Settings(folder=str(tmp_path), capacity=1024))
    session.open()
    _, calls = seam_cost.request_seams(session)
    assert seam_cost.OFTEN.keys() <= calls.keys()
    took = {name: {"p50_us": 1.0} for name in calls}
    assert seam_cost.together(took, 50) == len(calls) + sum(seam_cost.OFTEN.values()) - len(seam_cost.OFTEN)


@pytest.mark.parametrize(
    ("module", "owner", "ours", "polls"),
    [
        ("managers.cache_controller", "HiCacheController", seam_cost.Cache, ("start_loading", "start_writing")),
        ("mem_cache.unified_radix_cache", "UnifiedRadixCache", seam_cost.Tree, ("loading_check", "writing_check")),
    ],
)
def test_what_polls_takes_what_the_engines_does(module: str, owner: str, ours: type, polls: tuple[str, ...]) -> None:
    """The wrapper of a function that takes itself alone costs less than that of any other."""
    with importable("v0523"):
        engines = getattr(importlib.import_module(f"sglang.srt.{module}"), owner)
        for name in polls:
            taken = [list(inspect.signature(getattr(holder, name)).parameters) for holder in (engines, ours)]
            assert taken[0] == taken[1]
