"""Which answers are held against which, and what is said of them all."""

from __future__ import annotations

import pytest

from .fake_engine import FakeEngine


def named(run):
    return {found.name: found for found in run.answers.comparisons}


def test_every_series_after_a_read_is_held_against_the_l1_run(run_of):
    found = named(run_of(FakeEngine(storage="file"), "--l3", "--repetitions", "2"))
    assert list(found) == ["B to A", "B to B", "C to B", "D to B", "E to B"]
    assert {(one.compared, one.failures, one.same_tokens) for one in found.values()} == {(2, 0, 2)}


def test_failures_are_counted_over_all_repetitions(run_of):
    found = named(run_of(FakeEngine(damages=True), "--repetitions", "2"))
    assert (found["C to B"].failures, found["C to B"].compared) == (2, 2)
    assert found["B to A"].failures == 0


def test_the_tolerance_is_learned_from_what_an_l1_run_differs_from_a_cold_one(run_of):
    run = run_of(FakeEngine(drifts=0.1), "--repetitions", "2")
    assert run.answers.tolerance == pytest.approx(0.4)
    assert not run.answers.too_wide


def test_a_tolerance_that_lets_damage_through_is_said_to(ask, run_of):
    assert run_of(FakeEngine(drifts=0.4), "--repetitions", "2").answers.too_wide
    assert "would let damage through" in ask(FakeEngine(drifts=0.4), "--repetitions", "2").stdout


def test_speculative_acceptance_is_reported_where_there_is_any(run_of):
    assert run_of(FakeEngine()).answers.acceptance is None
    found = run_of(FakeEngine(accepts=2.5)).answers.acceptance
    assert (found.before, found.after) == (2.5, 2.5)
