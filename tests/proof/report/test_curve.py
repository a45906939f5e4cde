"""The two lines of a ladder: where they stand, and what is marked between them."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from hicache_proof.break_even import BreakEven
from hicache_proof.report import curve, ladders


def between(**where):
    return BreakEven(says="between", sentence="between", **where)


def test_both_lines_have_a_dot_a_rung_inside_the_frame(everything):
    found = curve.draw(everything.lengths)
    assert [line.name for line in found.lines] == ["read from L2", "computed"]
    for line in found.lines:
        assert len(line.dots) == 3
        for dot in line.dots:
            assert 70 <= dot.x <= 930
            assert 36 <= dot.high <= dot.y <= dot.low <= 280


def test_doubling_lengths_stand_at_equal_distances(everything):
    first, second, third = (tick.at for tick in curve.draw(everything.lengths).x_ticks)
    assert third - second == pytest.approx(second - first, abs=0.2)


def test_the_break_even_is_marked_where_it_is_estimated(everything):
    found = curve.draw(replace(everything.lengths, break_even=between(estimate=200.0, low=150.0, high=None)))
    assert found.mark == found.x_ticks[1].at
    assert found.band[0] < found.mark < found.band[1] == found.x_ticks[2].at, "open to the longest length"


def test_without_an_estimate_nothing_is_marked(everything):
    found = curve.draw(replace(everything.lengths, break_even=BreakEven(says="never", sentence="not reached")))
    assert (found.mark, found.band) == (None, None)
    assert curve.draw(everything.concurrency).mark is None


def test_a_single_rung_stands_in_the_middle(everything):
    found = curve.draw(replace(everything.lengths, rungs=everything.lengths.rungs[:1]))
    assert found.x_ticks[0].at == 500


def test_a_rung_without_a_figure_says_why(everything):
    rung = everything.lengths.rungs[0]
    refused = replace(rung.effect, says="refused", why="only 1 of 2 requests were served from L2", ratio=None)
    assert ladders.effect(replace(rung, effect=refused)) == "no figure: only 1 of 2 requests were served from L2"
