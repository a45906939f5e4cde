"""The overhead benchmark: its blocks take turns, each kind has its share, and noise alone is no overhead."""

import json
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from types import SimpleNamespace

import pytest

sys.path.append(str(Path(__file__).parents[2] / "benchmarks"))

import engine_overhead
import form
from engine_overhead import Figures, Size, Took

NOISE = (0.7, 0.8, 0.9, 1.0, 1 / 0.9, 1 / 0.8, 1 / 0.7)


class Engine:
    """Answers at once. Time goes by only where a block says so."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 0.0
        self.computed = 0
        self.switched: list[bool] = []
        self.asked: list[tuple[int, str | None]] = []
        self.ids: list[list[int]] = []
        self._next = 0
        clock = SimpleNamespace(monotonic=lambda: self.now, perf_counter=time.perf_counter)
        monkeypatch.setattr(engine_overhead, "time", clock)
        monkeypatch.setattr(engine_overhead, "SETTLE", 0)

    async def switch(self, on: bool) -> None:
        self.switched.append(on)

    def draw(self, count: int) -> list[int]:
        self._next += 1
        return [self._next] * count

    async def ask(self, ids: list[int], tokens: int = 1, cached: str | None = None) -> Took:
        self.asked.append((len(ids), cached))
        self.ids.append(ids)
        self.computed += 0 if cached else len(ids)
        return Took(len(self.asked), 10 * len(self.asked))

    def block(self, name: str, seconds: float, order: list[str]) -> Callable[[bool], Awaitable[Figures]]:
        async def asked(on: bool) -> Figures:
            order.append(f"{name} {'in' if on else 'out'}")
            self.now += seconds
            return {name: 2.0 if on else 1.0}

        return asked


@pytest.fixture
def engine(monkeypatch: pytest.MonkeyPatch) -> Engine:
    return Engine(monkeypatch)


async def test_blocks_go_in_out_out_in_with_a_switch_only_in_the_middle_of_a_pair(engine: Engine) -> None:
    order: list[str] = []
    pairs = await engine_overhead.take_turns([engine.block("one", 1, order)], engine.switch, 6)
    assert order == ["one in", "one out", "one out", "one in", "one in", "one out"]
    assert engine.switched == [True, False, True, False]
    assert pairs == {"one": [(2.0, 1.0)] * 2}  # the first warms up


async def test_the_kind_of_block_that_has_had_less_time_is_next(engine: Engine) -> None:
    order: list[str] = []
    await engine_overhead.take_turns([engine.block("one", 1, order), engine.block("many", 3, order)], engine.switch, 24)
    assert sum(name.startswith("many") for name in order) == 4
    assert sum(name.startswith("one") for name in order) == 12


async def test_one_at_a_time_the_first_after_a_switch_does_not_count(engine: Engine) -> None:
    found = await engine_overhead.OneAtATime(engine, engine.draw, Size(100, 5), count=2, l1=0)(True)
    assert engine.asked == [(100, None)] * 3
    assert found == {
        "1 at once, cold (100 + 5 tokens), TTFT": 2.5,
        "1 at once, cold (100 + 5 tokens), requests a second": 1 / 25,
    }


async def test_a_host_hit_is_of_what_the_same_half_stored_and_l1_has_lost(engine: Engine) -> None:
    block = engine_overhead.OneAtATime(engine, engine.draw, Size(100, 5), count=1, l1=350)
    for on in (True, False, False):
        await block(on)
    assert "host" not in {cached for _, cached in engine.asked}
    first_in, first_out = engine.ids[1], engine.ids[4]
    assert "1 at once, L2 hit (100 + 5 tokens), TTFT" in await block(True)
    assert engine.asked[-1] == (100, "host")
    assert engine.ids[-1] is first_in
    await block(False)
    assert engine.ids[-1] is first_out


async def test_a_burst_finds_the_engine_at_work_that_does_not_count(engine: Engine) -> None:
    found = await engine_overhead.Burst(engine, engine.draw, Size(100, 5), count=3, ahead=400)(True)
    assert engine.asked == [(400, None)] + [(100, None)] * 3
    assert found["3 at once, cold (100 + 5 tokens), TTFT"] == 3


def test_noise_that_hits_both_halves_alike_is_no_change() -> None:
    middle, (low, high) = engine_overhead.change([(noise, 1.0) for noise in NOISE])
    assert middle == pytest.approx(0)
    assert low < 0 < high


def test_what_is_added_is_found_and_the_other_way_round_it_is_the_inverse() -> None:
    pairs = [(1.1 * noise, 1.0) for noise in NOISE]
    assert engine_overhead.change(pairs)[0] == pytest.approx(10)
    assert engine_overhead.change([(out, one) for one, out in pairs])[0] == pytest.approx(100 * (1 / 1.1 - 1))


def test_pairs_of_several_runs_are_one_figure(tmp_path: Path) -> None:
    files = [tmp_path / "a.json", tmp_path / "b.json"]
    for file, pair in zip(files, ([1, 2], [3, 4]), strict=True):
        file.write_text(json.dumps({"asked": "as ever", "pairs": {"cold, TTFT": [pair]}}))
    assert engine_overhead.pooled(files) == {"cold, TTFT": [(1, 2), (3, 4)]}


def reported(pairs: engine_overhead.Pairs) -> dict[str, form.Line]:
    bench = form.Bench("engine_overhead", None)
    engine_overhead.report(bench, "it", pairs, 0.5)
    return {line.figure: line for line in bench.lines}


def test_a_small_effect_that_is_certain_stays_below_the_edge_and_misses_zero() -> None:
    lines = reported({"1 at once, cold, TTFT": [(1.002, 1.0), (1.003, 1.0), (1.002, 1.0), (1.003, 1.0)]})
    assert lines["it: 1 at once, cold, TTFT, furthest edge of the change"].met is True
    missed = lines["it: 1 at once, cold, TTFT, its interval misses zero by"]
    assert missed.met is False
    assert missed.value == pytest.approx(0.2, abs=0.05)


def test_less_throughput_misses_zero_as_more_time_does() -> None:
    lines = reported({"1 at once, cold, requests a second": [(0.99, 1.0), (0.991, 1.0), (0.99, 1.0)]})
    assert lines["it: 1 at once, cold, requests a second, its interval misses zero by"].value > 0.8
    assert lines["it: 1 at once, cold, requests a second, furthest edge of the change"].met is False


def test_hits_have_no_target_and_one_pair_says_nothing() -> None:
    lines = reported({"1 at once, L1 hit (1 + 1 tokens), TTFT": [(1, 1), (1, 1.1)], "cold": [(1, 1)]})
    assert [line.target for line in lines.values()] == [None]
