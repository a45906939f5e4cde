"""The sentence about speed speaks of an L2 read only where one was proven."""

from __future__ import annotations

import msgspec
import pytest

from hicache_proof.lab.run import LabRun
from hicache_proof.report.view import effect
from hicache_proof.stats import Effect, Interval


def measured(run: LabRun, verdict: str) -> LabRun:
    found = Effect(
        says="faster", why="", baseline="a new prefix", ratio=2.2, ratio_interval=Interval(low=2.0, high=2.5)
    )
    outcome = msgspec.structs.replace(run.outcome, verdict=verdict)
    return msgspec.structs.replace(run, outcome=outcome, effect=found)


@pytest.mark.parametrize("verdict", ["proven", "corroborated"])
def test_a_proven_read_has_its_figure(proven, verdict):
    assert "2.2 times faster" in effect(measured(proven, verdict))
    assert "for the L2 read" in effect(measured(proven, verdict))


def test_what_is_only_consistent_with_one_is_called_by_its_series(proven):
    assert "for series C," in effect(measured(proven, "consistent"))
    assert "L2 read" not in effect(measured(proven, "consistent"))


def test_without_a_read_there_is_no_figure(proven):
    assert effect(measured(proven, "no_read")) == "No speed-up figure: series C was not read from L2."
