"""What may be said about a handful of timings."""

from __future__ import annotations

import pytest

from hicache_proof import stats

QUIET = [2.0, 2.1, 2.2]


def test_a_median_has_an_interval_that_holds_it():
    found = stats.summarise([1.0, 1.1, 5.0])
    assert found.median == 1.1
    assert found.interval.low <= found.median <= found.interval.high
    assert (found.smallest, found.largest) == (1.0, 5.0)


def test_one_value_has_no_interval_and_none_has_no_summary():
    assert stats.summarise([1.0]).interval is None
    assert stats.summarise([]) is None


@pytest.mark.parametrize(("count", "given"), [(19, False), (20, True)])
def test_under_twenty_values_there_is_no_95th_percentile(count, given):
    assert (stats.summarise([float(value) for value in range(count)]).p95 is not None) is given


def test_the_same_values_give_the_same_interval():
    assert stats.summarise([1.0, 2.0, 4.0]) == stats.summarise([4.0, 1.0, 2.0])


def test_reads_that_are_faster_throughout():
    found = stats.compare([0.1, 0.11, 0.12], [2.0, 2.1, 2.2], QUIET, "control")
    assert found.says == "faster"
    assert found.ratio == pytest.approx(2.1 / 0.11)
    assert found.ratio_interval.low > 10
    assert found.saved_seconds == pytest.approx(1.99)


def test_reads_that_are_slower_throughout():
    assert stats.compare([4.0, 4.1, 4.2], [2.0, 2.1, 2.2], QUIET, "control").says == "slower"


def test_an_interval_around_one_is_no_difference():
    assert stats.compare([1.9, 2.1, 2.4], [2.0, 2.1, 2.2], QUIET, "control").says == "no_difference"


def test_a_difference_under_the_stated_minimum_is_no_difference():
    found = stats.compare([2.00, 2.00, 2.00], [2.1, 2.1, 2.1], QUIET, "control")
    assert (found.says, found.ratio) == ("no_difference", pytest.approx(1.05))
    assert "minimum" in found.why


def test_cold_runs_that_disagree_forbid_a_figure():
    found = stats.compare([0.1, 0.1], [2.0, 2.1], [1.0, 2.0], "control")
    assert (found.says, found.ratio) == ("refused", None)
    assert "not quiet enough" in found.why


@pytest.mark.parametrize(
    ("reads", "baseline", "cold"),
    [([0.1], [2.0, 2.1], QUIET), ([0.1, 0.1], [2.0], QUIET), ([0.1, 0.1], [2.0, 2.1], [2.0])],
)
def test_fewer_than_two_repetitions_forbid_a_figure(reads, baseline, cold):
    assert stats.compare(reads, baseline, cold, "control").says == "refused"
