import itertools

from hypothesis import given, settings
from hypothesis import strategies as st

from hicache_exporter.core.intervals import IntervalMap

STEPS = st.lists(
    st.tuples(st.sampled_from(("assign", "cut", "change")), st.integers(0, 40), st.integers(1, 15)), max_size=60
)


@settings(max_examples=300, deadline=None)
@given(STEPS)
def test_it_is_a_dictionary_from_whole_numbers_to_values(steps):
    """Held against a plain dict, number by number."""
    intervals, plain = IntervalMap(), {}
    for value, (step, start, length) in enumerate(steps):
        numbers = range(start, start + length)
        covered = {number: plain[number] for number in numbers if number in plain}
        if step == "change":
            seen = {}

            def new(count, before, seen=seen):
                seen[before] = seen.get(before, 0) + count
                return -before

            intervals.change(start, start + length, new)
            assert seen == {v: list(covered.values()).count(v) for v in covered.values()}
            plain.update({number: -before for number, before in covered.items()})
            continue
        if step == "assign":
            replaced = intervals.assign(start, start + length, value)
            plain.update(dict.fromkeys(numbers, value))
        else:
            replaced = intervals.cut(start, start + length)
            for number in covered:
                del plain[number]
        assert {n: v for low, high, v in replaced for n in range(low, high)} == covered
    pieces = list(intervals)
    assert {n: v for low, high, v in pieces for n in range(low, high)} == plain
    assert all(low < high for low, high, _ in pieces)
    assert all(before[1] <= after[0] for before, after in itertools.pairwise(pieces))
