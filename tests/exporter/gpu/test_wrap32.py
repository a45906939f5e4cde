"""A 32-bit counter read often enough gives the full total, whatever passed in between."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from hicache_exporter.core.wrap32 import WRAP, Wrap32

steps = st.lists(st.integers(min_value=0, max_value=WRAP - 1), max_size=60)


@given(start=st.integers(min_value=0, max_value=1 << 63), steps=steps)
@example(start=WRAP - 1, steps=[1, WRAP - 1, 0, WRAP - 1])
def test_any_history_with_less_than_a_wrap_between_readings_is_summed_exactly(start, steps):
    counter, true = Wrap32(), start
    counter.begin(true % WRAP)
    for step in steps:
        true += step
        assert counter.advance(true % WRAP) == step
    assert counter.total == true - start


@given(wraps=st.integers(min_value=1, max_value=50), rest=st.integers(min_value=0, max_value=WRAP - 1))
def test_a_missed_wrap_is_undercounted_never_overcounted(wraps, rest):
    counter = Wrap32()
    counter.begin(7)
    assert counter.advance((7 + wraps * WRAP + rest) % WRAP) == rest


def test_a_new_base_adds_nothing_and_keeps_the_total():
    counter = Wrap32(total=1000)
    counter.begin(4_000_000_000)
    counter.advance(4_000_000_010)
    counter.begin(5)
    assert counter.total == 1010


def test_there_is_no_step_without_a_base():
    with pytest.raises(ValueError, match="before begin"):
        Wrap32().advance(1)
