"""From which length on a read beats computing: found, not reached, always, or not known."""

from __future__ import annotations

import pytest

from hicache_proof import stats
from hicache_proof.break_even import Point, find

NOISE = (0.98, 1.0, 1.02)


def point(tokens, read, miss, noise=NOISE):
    reads, misses = [read * n for n in noise], [miss * n for n in noise]
    return Point(tokens, reads, misses, stats.compare(reads, misses, misses, "computing"))


def line(lengths, fixed=0.010, per_token=20e-6):
    """A read costs the same at any length, computing grows with it: they meet at 500 tokens."""
    return [point(tokens, fixed, tokens * per_token) for tokens in lengths]


def test_it_lies_between_the_last_length_that_loses_and_the_first_that_wins():
    found = find(line([100, 300, 1000, 3000]))
    assert (found.says, found.after, found.by) == ("between", 300, 1000)
    assert found.estimate == pytest.approx(500, rel=0.1)
    assert found.low < found.estimate < found.high


def test_reads_that_win_everywhere_put_it_below_the_shortest_length():
    found = find(line([1000, 2000]))
    assert (found.says, found.by, found.estimate) == ("always", 1000, None)


def test_reads_that_win_nowhere_have_not_reached_it():
    found = find(line([50, 100]))
    assert (found.says, found.estimate) == ("never", None)
    assert "at no length tried, from 50 to 100 tokens," in found.sentence


def test_a_difference_within_the_noise_is_not_a_win():
    wide = (0.5, 1.0, 1.5)
    found = find([point(1000, 0.010, 0.011, noise=(0.8, 1.0, 1.2)), point(2000, 0.010, 0.012, noise=(0.8, 1.0, 1.2))])
    assert found.says == "never"
    assert find([point(1000, 0.010, 0.1, noise=wide)]).says == "not_known", "computing disagrees with itself"


def test_a_longest_length_that_loses_again_leaves_it_unclear():
    assert find([point(100, 0.01, 0.02), point(200, 0.02, 0.01)]).says == "unclear"


def test_lengths_without_a_figure_are_left_out_and_named():
    refused = Point(200, [0.1], [0.2], stats.compare([0.1], [0.2], [0.2], "computing"))
    found = find([*line([100]), refused, *line([1000])])
    assert (found.after, found.by) == (100, 1000)
    assert found.sentence.endswith("No figure at 200 tokens: fewer than two repetitions to compare.")


def test_a_length_without_a_figure_is_not_among_those_it_speaks_of():
    noisy = Point(64, [0.1, 0.1], [0.1, 0.3], stats.compare([0.1, 0.1], [0.1, 0.3], [0.1, 0.3], "computing", "them"))
    found = find([noisy, *line([1000, 2000])])
    assert found.sentence == (
        "An L2 read is faster at every length that gave a figure, from 1,000 tokens on: the break-even lies below. "
        "No figure at 64 tokens: the repetitions of them differ by 100% of their median (limit 50%): the machine was "
        "not quiet enough for a figure."
    )
    assert find(line([1000, 2000])).sentence.startswith("An L2 read is faster at every length tried, from 1,000")


def test_nothing_measured_is_not_known():
    assert find([]).says == "not_known"


def test_the_same_values_give_the_same_interval():
    assert find(line([100, 300, 1000])) == find(line([100, 300, 1000]))
