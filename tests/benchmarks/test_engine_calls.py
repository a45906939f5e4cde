"""What a request passes, by the meter's files: a mean over the ranks of the engine that runs, and of no other; and
of a burst the share of one request.
"""

import sys
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).parents[2] / "benchmarks"))

import engine_calls
from engine_calls import CELL, Asked, Meter, Passed


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


class Client:
    """An engine whose L1 holds what was asked last, and whose L2 everything: a burst passes 8 calls and 80 µs."""

    asked = Asked("", l1=1000, vocabulary=500, at_once=4, prompt=100)

    def __init__(self) -> None:
        self.tokens_since: dict[int, int] = {}
        self.drawn = 0
        self.seen_after: list[int] = []

    def draw(self) -> list[list[int]]:
        self.drawn += 4
        return [[self.drawn + at] * 100 for at in range(4)]

    def ask(self, prompts: list[list[int]]) -> list[int]:
        found = []
        for ids in prompts:
            since = self.tokens_since.get(ids[0])
            self.seen_after += [] if since is None else [since]
            found.append(0 if since is None else 99)
            self.tokens_since = {key: tokens + 100 for key, tokens in self.tokens_since.items()} | {ids[0]: 0}
        return found

    def look(self) -> Passed:
        return Passed({"Scheduler.add_one_req": 8}, {"Scheduler.add_one_req": 80.0})


def test_of_a_burst_each_request_has_its_share_and_an_l2_hit_has_left_l1(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine_calls, "SETTLE", 0)
    client = Client()
    found = list(engine_calls.one_round(client, client))
    assert found == [Passed({"Scheduler.add_one_req": 2}, {"Scheduler.add_one_req": 20.0})] * 3
    l1_hits, l2_hits = client.seen_after[:4], client.seen_after[4:]
    assert max(l1_hits) < 1000 < min(l2_hits)
    assert len(l2_hits) == 4


def test_one_request_of_a_burst_that_was_cached_is_enough_to_say_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine_calls, "SETTLE", 0)
    client = Client()
    client.tokens_since[7] = 0  # the last of the first burst
    with pytest.raises(SystemExit, match="cold had 99"):
        list(engine_calls.one_round(client, client))


def test_a_round_after_the_seams_came_in_or_went_does_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else an engine's L1 would hold what the seams have not seen come, and they would have to ask for it."""
    rounds: list[bool] = []  # with the seams?
    seams = True

    class Switch:
        def leave_out(self, out: bool) -> None:
            nonlocal seams
            seams = not out

    def numbered(_client: object, _meter: object) -> list[Passed]:
        rounds.append(seams)
        return [Passed({"UnifiedRadixCache.init_load_back": 1}, {"": float(len(rounds) - 1)})] * 3

    monkeypatch.setattr(engine_calls, "one_round", numbered)
    found = engine_calls.measure(Asked("http://127.0.0.1:1", 1000, 500), Switch(), 4)
    for with_seams, alone in found["cold"]:
        for passed, mode in ((with_seams, True), (alone, False)):
            at = int(passed.total_us)
            assert rounds[at - 1 : at + 1] == [mode, mode]
    assert len(found["cold"]) == 4
