"""The figure of the overhead benchmark: noise alone is no overhead, whichever half it hits."""

import sys
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).parents[2] / "benchmarks"))

import engine_overhead

NOISE = (0.7, 0.8, 0.9, 1.0, 1 / 0.9, 1 / 0.8, 1 / 0.7)


def test_noise_that_hits_both_halves_alike_is_no_change() -> None:
    middle, (low, high) = engine_overhead.change([(noise, 1.0) for noise in NOISE])
    assert middle == pytest.approx(0)
    assert low < 0 < high


def test_what_is_added_is_found_and_the_other_way_round_it_is_the_inverse() -> None:
    pairs = [(1.1 * noise, 1.0) for noise in NOISE]
    assert engine_overhead.change(pairs)[0] == pytest.approx(10)
    assert engine_overhead.change([(out, one) for one, out in pairs])[0] == pytest.approx(100 * (1 / 1.1 - 1))
