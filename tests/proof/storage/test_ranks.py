"""What the recorders of the ranks add: a rank that failed behind the back of the one that answers for it."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from msgspec.structs import replace

from hicache_proof.storage import work
from hicache_proof.storage.conclude import state_of, status, switched
from hicache_proof.storage.recorded import NoRecorderError, ranks
from hicache_proof.storage.state import Facts, Rank, Replica, Traffic
from hicache_tracing.recorder import Recorder
from hicache_tracing.records import Kind, SeamState

ENGINE = "http://127.0.0.1:30000"


def facts(*told: Rank, backend: str | None = "file") -> Facts:
    return Facts(
        replicas=(Replica(hicache_storage_backend=backend),),
        frontend=None,
        frontend_missing="no key",
        ranks=told,
        ranks_missing=None,
        traffic=Traffic(seconds=0, busy=(), finished=None),
    )


def rank(number: int, attached: bool | None = True, succeeded: bool | None = True) -> Rank:
    return Rank(rank=f"tp{number}", attached=attached, succeeded=succeeded if attached is not None else None)


def attached(*told: Rank) -> tuple[bool, str, str]:
    report = switched("attach", "file", ENGINE, "0.5.23", facts(*told), ("yes",), True)
    return report.done, report.state, report.says


def test_all_ranks_are_done() -> None:
    assert attached(rank(0), rank(1)) == (True, "attached", "L3 is attached, seen in all 2 ranks that record")
    assert attached(rank(0))[2] == "L3 is attached, seen in the rank that records"


@pytest.mark.parametrize(
    ("other", "says"),
    [
        (rank(1, succeeded=False), "tp1 failed"),
        (rank(1, attached=None), "tp1 did nothing"),
        (rank(1, attached=False), "tp1 failed"),
    ],
)
def test_a_rank_that_differs_is_named_although_the_engine_says_yes(other: Rank, says: str) -> None:
    assert attached(rank(0), other) == (False, "mixed", f"attached in part only: {says}")


def test_what_failed_in_all_ranks_is_not_in_part() -> None:
    failed = [rank(number, succeeded=False) for number in range(2)]
    report = switched("attach", "file", ENGINE, "0.5.23", facts(*failed, backend=None), ("disk full",), False)
    assert (report.done, report.state, report.says) == (False, "detached", "not attached, as far as can be seen")


def test_an_attach_that_failed_in_all_ranks_is_not_believed_whatever_the_engine_says() -> None:
    done, state, says = attached(rank(0, succeeded=False), rank(1, succeeded=False))
    assert (done, state, says) == (False, "mixed", "attached in part only: tp0 failed; tp1 failed")


def test_nothing_to_detach_is_no_failure_if_all_ranks_say_so_and_the_engine_agrees() -> None:
    idle = [rank(number, attached=False, succeeded=False) for number in range(2)]
    for ok, told, done in ((True, idle, True), (False, idle, False), (True, [idle[0], rank(1, attached=False)], False)):
        report = switched("detach", None, ENGINE, "0.5.14", facts(*told, backend=None), ("said",), ok)
        assert report.done is done


def test_recorders_that_saw_no_switch_at_all_are_no_witnesses() -> None:
    done, _, says = attached(rank(0, attached=None), rank(1, attached=None))
    assert done
    assert says == "L3 is attached, as rank 0 says; no recorder tells of each rank"


@pytest.mark.parametrize(
    ("told", "backend", "state"),
    [
        ((), "file", "attached"),
        ((), None, "detached"),
        ((rank(0), rank(1)), "file", "attached"),
        ((rank(0), rank(1, attached=None)), "file", "attached"),
        ((rank(0), rank(1, attached=False)), "file", "mixed"),
        ((rank(0), rank(1, succeeded=False)), "file", "mixed"),
        ((rank(0), rank(1)), None, "mixed"),
        ((rank(0, succeeded=False), rank(1, succeeded=False)), "file", "attached"),
        ((rank(0, succeeded=False), rank(1, succeeded=False)), None, "detached"),
    ],
)
def test_the_state_is_that_on_which_all_agree(told: tuple[Rank, ...], backend: str | None, state: str) -> None:
    assert state_of(facts(*told, backend=backend)) == state


def test_an_engine_that_tells_nothing_has_no_state() -> None:
    nothing = facts(backend=None)
    assert state_of(Facts(**{f: getattr(nothing, f) for f in Facts.__struct_fields__} | {"replicas": ()})) == "unknown"


def test_a_scheduler_that_does_not_tell_is_not_one_without_l3() -> None:
    silent = replace(facts(), replicas=(Replica(),))
    assert state_of(silent) == "unknown"
    assert state_of(replace(silent, ranks=(rank(0),))) == "attached"
    assert switched("detach", None, ENGINE, "0.5.9", silent, ("yes",), True).done is False
    both = replace(facts(), replicas=(Replica(), Replica(hicache_storage_backend="file")))
    assert status(ENGINE, "0.5.23", both).says == "L3 is attached: file"
    assert switched("attach", "file", ENGINE, "0.5.23", both, ("yes",), True).done


def test_ranks_without_a_recorder_are_counted_where_the_engine_says_how_many_there_are() -> None:
    told = replace(facts(rank(0), rank(1)), ranks_expected=4)
    says = switched("attach", "file", ENGINE, "0.5.23", told, ("yes",), True).says
    assert says == "L3 is attached, seen in all 2 ranks that record; 2 more here do not"


IDENTITY = {"host": "0.0.0.0", "port": 30000, "tp_size": 2, "seams": ["UnifiedRadixCache.attach_storage_backend"]}


@pytest.fixture
def recorders(tmp_path: Path) -> Iterator[tuple[Recorder, Recorder]]:
    """Those of two ranks, in this process."""
    made = []
    for number in range(2):
        recorder = Recorder(str(tmp_path), 1024)
        recorder.identify({**IDENTITY, "tp_rank": number})
        recorder.seam(0, SeamState.ATTACHED, False, 0)
        made.append(recorder)
    yield made[0], made[1]
    for recorder in made:
        recorder.close()


def test_each_ranks_last_switch_is_read_from_its_ring(tmp_path: Path, recorders: tuple[Recorder, Recorder]) -> None:
    first, second = recorders
    for switch in ((1, 1), (0, 1)):
        first.write(Kind.STORAGE_ATTACH, b"", *switch)
    first.write(Kind.RESET, b"")
    second.write(Kind.STORAGE_ATTACH, b"", 1, 0)
    assert ranks(str(tmp_path), ENGINE) == (rank(0, attached=False), rank(1, succeeded=False))


def test_switches_before_the_moment_asked_for_do_not_count(
    tmp_path: Path, recorders: tuple[Recorder, Recorder]
) -> None:
    recorders[0].write(Kind.STORAGE_ATTACH, b"", 1, 1)
    assert ranks(str(tmp_path), ENGINE, time.monotonic_ns()) == (rank(0, attached=None), rank(1, attached=None))


def test_a_recorder_that_watches_no_storage_is_no_witness(tmp_path: Path, recorders: tuple[Recorder, Recorder]) -> None:
    recorders[1].seam(0, SeamState.UNRECOGNISED, False, 0)
    assert [one.rank for one in ranks(str(tmp_path), ENGINE)] == ["tp0"]


@pytest.mark.parametrize("engine", [ENGINE, "http://127.0.0.1:30001"])
def test_without_a_recorder_of_this_engine_it_is_said_why(tmp_path: Path, engine: str) -> None:
    with pytest.raises(NoRecorderError, match=r"no recorder of http://127\.0\.0\.1"):
        ranks(str(tmp_path), engine)


def looks(monkeypatch: pytest.MonkeyPatch, *found: tuple[Rank, ...]) -> None:
    """What is to be found at each look; the last of them for ever."""
    left = list(found)
    monkeypatch.setattr(work.recorded, "ranks", lambda *_: left.pop(0) if len(left) > 1 else left[0])
    monkeypatch.setattr(work, "PAUSE_SECONDS", 0.01)
    monkeypatch.setattr(work, "LATE_SECONDS", 0.1)


def test_a_rank_may_do_it_later_than_the_one_that_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    late = (rank(0), rank(1, attached=None))
    looks(monkeypatch, late, late, (rank(0), rank(1)))
    assert work._ranks("rings", ENGINE, since_ns=1) == ((rank(0), rank(1)), None)


def test_but_not_for_ever_and_nobody_is_waited_for_where_none_has_begun(monkeypatch: pytest.MonkeyPatch) -> None:
    late, never = (rank(0), rank(1, attached=None)), (rank(0, attached=None), rank(1, attached=None))
    looks(monkeypatch, late)
    assert work._ranks("rings", ENGINE, since_ns=1) == (late, None)
    looks(monkeypatch, never, (rank(0), rank(1)))
    assert work._ranks("rings", ENGINE, since_ns=1) == (never, None)
    looks(monkeypatch, late, (rank(0), rank(1)))
    assert work._ranks("rings", ENGINE, since_ns=0) == (late, None)
