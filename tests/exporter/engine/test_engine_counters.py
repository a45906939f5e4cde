"""Counters through restarts of the engine and through steps back that are none."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hicache_exporter import names
from hicache_exporter.core.engine_counters import EngineCounters
from hicache_exporter.core.engine_identity import Incarnation, incarnation
from hicache_exporter.core.engine_report import EngineTracker
from hicache_exporter.core.engine_view import Value

from .samples import LATEST, info_of, metrics_of, read, reading, summed_over_ranks

HITS, LOADED, EVICTED = names.ENGINE_CACHED_TOKENS, names.ENGINE_LOAD_BACK_TOKENS, names.ENGINE_EVICTED_TOKENS
RUN_1, RUN_2 = Incarnation(process_start=100.0), Incarnation(process_start=200.0)
NO_MARK = Incarnation()


def host_hits(tokens: float) -> Value:
    return Value(HITS, ("host",), (tokens,))


class Engine:
    def __init__(self) -> None:
        self.counters = EngineCounters()

    def says(self, tokens: float, run: Incarnation = NO_MARK, *more: Value) -> float:
        return self.counters.follow([host_hits(tokens), *more], run)[0].values[0]

    @property
    def total(self) -> float:
        return self.counters.total(HITS.name, ("host",))


@pytest.fixture
def engine():
    return Engine()


def test_a_counter_passes_through_as_the_engine_gives_it(engine):
    assert [engine.says(n) for n in (5, 5, 9)] == [5, 5, 9]
    assert (engine.counters.restarts, engine.counters.anomalies) == (0, 0)


def test_after_a_restart_the_lower_value_passes_and_nothing_is_lost_or_counted_twice(engine):
    assert [engine.says(1000, RUN_1), engine.says(400, RUN_2), engine.says(450, RUN_2)] == [1000, 400, 450]
    assert engine.counters.restarts == 1
    assert engine.total == 1450


def test_a_restart_that_has_already_overtaken_the_old_value_is_noticed_by_its_mark(engine):
    engine.says(10, RUN_1)
    assert engine.says(15, RUN_2) == 15
    assert engine.total == 25


def test_a_step_back_without_a_restart_is_held_and_counted(engine):
    assert [engine.says(n, RUN_1) for n in (1000, 990, 995, 1010)] == [1000, 1000, 1000, 1010]
    assert (engine.counters.restarts, engine.counters.anomalies) == (0, 1)
    assert engine.total == 1010


def test_a_fall_to_near_zero_is_a_restart_of_that_counter_even_without_a_mark(engine):
    assert [engine.says(1000), engine.says(3), engine.says(5)] == [1000, 3, 5]
    assert engine.counters.anomalies == 0
    assert engine.total == 1005


def test_a_zero_of_ours_is_no_restart(engine):
    """The series is gone from the engine's answer for a moment; taken for a reset it would count 1000 twice."""
    engine.says(1000)
    gone = Value(HITS, ("host",), (0.0,), assumed=True)
    assert engine.counters.follow([gone], NO_MARK)[0].values == (1000,)
    assert engine.says(1001) == 1001
    assert engine.total == 1001


def test_when_all_counters_fall_together_the_engine_has_restarted(engine):
    def others(loaded, evicted):
        return Value(LOADED, (), (loaded,)), Value(EVICTED, (), (evicted,))

    engine.says(1000, NO_MARK, *others(500, 800))
    assert engine.says(600, NO_MARK, *others(300, 400)) == 600
    assert (engine.counters.restarts, engine.counters.anomalies) == (1, 0)


def test_when_only_some_fall_it_has_not(engine):
    engine.says(1000, NO_MARK, Value(LOADED, (), (500,)), Value(EVICTED, (), (800,)))
    assert engine.says(600, NO_MARK, Value(LOADED, (), (500,)), Value(EVICTED, (), (801,))) == 1000
    assert (engine.counters.restarts, engine.counters.anomalies) == (0, 1)


def test_even_when_all_fall_it_has_not_if_its_marks_say_so(engine):
    engine.says(1000, RUN_1, Value(LOADED, (), (500,)), Value(EVICTED, (), (800,)))
    assert engine.says(600, RUN_1, Value(LOADED, (), (300,)), Value(EVICTED, (), (400,))) == 1000
    assert (engine.counters.restarts, engine.counters.anomalies) == (0, 3)


def test_a_counter_that_was_absent_over_a_restart_starts_anew(engine):
    engine.says(1000, RUN_1)
    engine.counters.follow([], RUN_2)
    assert engine.says(40, RUN_2) == 40
    assert engine.total == 1040
    assert engine.counters.anomalies == 0


def test_gauges_are_left_alone(engine):
    used = Value(names.ENGINE_USED, ("host",), (500.0,))
    for value in (used, used._replace(values=(2.0,)), used._replace(values=(400.0,))):
        assert engine.counters.follow([value], RUN_1) == [value]
    assert engine.counters.anomalies == 0


def test_a_histogram_is_held_as_a_whole(engine):
    first = Value(names.ENGINE_TTFT, (), (10.0, 2.0, 4.0, 10.0), ("0.1", "+Inf"))
    back = first._replace(values=(9.0, 1.9, 3.0, 9.0))
    assert engine.counters.follow([first], RUN_1) == engine.counters.follow([back], RUN_1) == [first]


runs = st.lists(st.lists(st.integers(0, 50), min_size=1, max_size=8), min_size=1, max_size=6)


@given(runs)
@settings(max_examples=200, deadline=None)
def test_over_any_number_of_restarts_the_total_is_what_was_counted(runs):
    """Every step is known here: the sum of all increments, each once, none negative."""
    engine, counted = Engine(), 0
    for number, steps in enumerate(runs):
        value = 0
        for step in steps:
            value, before = value + step, counted
            counted += step
            engine.says(value, Incarnation(process_start=float(number)))
            assert engine.total == counted >= before
    assert engine.counters.restarts == len(runs) - 1


@given(st.lists(st.integers(0, 1000), min_size=1, max_size=30))
@settings(max_examples=200, deadline=None)
def test_within_one_run_what_is_served_never_falls_unless_it_starts_again_near_zero(values):
    engine, last = Engine(), 0.0
    for value in values:
        now = engine.says(float(value), RUN_1)
        assert now >= last or now == value <= 0.1 * last
        last = now


# -- marks of a run -------------------------------------------------------------------------------------------------
def test_two_recordings_of_one_run_are_the_same_run_and_two_runs_are_not():
    first = incarnation(read(metrics_of(LATEST)))
    other = incarnation(read(metrics_of("0.5.23-h200-unified")))
    assert first.follows(first) is False
    assert other.follows(first) is True


def test_phases_that_are_added_while_the_engine_starts_are_no_restart():
    early, later = Incarnation(startup={"load_weight": 1.5}), Incarnation(startup={"load_weight": 1.5, "e2e": 9.0})
    assert later.follows(early) is False
    assert Incarnation(startup={"load_weight": 1.25}).follows(later) is True


def test_an_old_engine_is_told_by_its_process_ids():
    text = metrics_of("0.5.9-cpu")
    first = incarnation(read(text))
    assert first.pids
    assert incarnation(read(text.replace('pid="', 'pid="9'))).follows(first) is True
    assert incarnation(read(re.sub(r'pid="\d+",', "", text))).follows(first) is None


def test_after_a_restart_the_old_number_of_ranks_is_not_used():
    """The engine may come back with other ranks: until /server_info is read again, summed counters are withheld."""
    tracker, info = EngineTracker(), info_of(LATEST, tp_size=4)
    text = summed_over_ranks(metrics_of(LATEST), 4)
    before = tracker.take(reading(text, info))
    restarted = tracker.take(reading(text.replace('pid="', 'pid="9'), info))
    assert "load_back_tokens_total" not in before.missing
    assert restarted.missing["load_back_tokens_total"].startswith("/server_info")
    assert restarted.restarts == 1
