"""Host slots as runs of consecutive ones, against the loop that anybody would write."""

from __future__ import annotations

import sys

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from hicache_tracing.records import MAX_RUNS, pack_runs, unpack_runs
from hicache_tracing.runs import FEW, host_runs

slot = st.integers(0, (1 << 31) - 1000)
pieces = st.lists(st.tuples(slot, st.integers(1, 100)), max_size=60)  # few slots and many


def naive(slots: list[int]) -> list[tuple[int, int]]:
    runs: list[tuple[int, int]] = []
    for one in slots:
        if runs and one == sum(runs[-1]):
            runs[-1] = (runs[-1][0], runs[-1][1] + 1)
        else:
            runs.append((one, 1))
    return runs


def check(slots: list[int], tensor: torch.Tensor, page: int = 1) -> None:
    expected = naive(slots)
    count, complete, packed = host_runs(tensor, page)
    assert count == min(len(expected), MAX_RUNS)
    assert complete == (len(expected) <= MAX_RUNS)
    assert unpack_runs(packed, count) == expected[:MAX_RUNS]
    assert len(packed) == 8 * count
    assert tensor.tolist() == slots, "the engine's tensor is only read"


@given(pieces)
def test_pieces_of_memory(pieces):
    slots = [first + i for first, count in pieces for i in range(count)]
    check(slots, torch.tensor(slots, dtype=torch.int64))


@given(st.lists(st.integers(0, 12), max_size=80))
def test_slots_in_any_order_repeated_or_backwards(slots):
    check(slots, torch.tensor(slots, dtype=torch.int64))


@given(st.lists(st.integers(0, 200), max_size=2 * FEW), st.sampled_from([2, 16, 64]))
def test_pages_in_any_order_that_the_engine_gives_out_whole(pages, page):
    slots = [number * page + i for number in pages for i in range(page)]
    check(slots, torch.tensor(slots, dtype=torch.int64), page)


@given(pieces, st.sampled_from([2, 3, 16, 64]))
def test_slots_that_are_not_given_out_by_page_are_read_one_by_one(pieces, page):
    slots = [first + i for first, count in pieces for i in range(count)]
    check(slots, torch.tensor(slots, dtype=torch.int64), page)


def test_a_page_with_a_hole_is_not_taken_for_a_whole_one():
    slots = [*range(64), *range(100, 163), 164]
    check(slots, torch.tensor(slots), 64)


def test_one_page_alone_is_read_slot_by_slot():
    check([5, 9, 7], torch.tensor([5, 9, 7]), 3)


@pytest.mark.parametrize("count", [FEW - 1, FEW, FEW + 1])
@pytest.mark.parametrize("page", [1, 2, 64])
@pytest.mark.parametrize("swapped", [[], [0, 1], [-2, -1], [60, 61]])
def test_where_few_become_many(count, page, swapped):
    pages = list(range(50, 50 + count))
    for one, other in zip(swapped[::2], swapped[1::2], strict=True):
        pages[one], pages[other] = pages[other], pages[one]
    slots = [number * page + i for number in pages for i in range(page)]
    check(slots, torch.tensor(slots, dtype=torch.int64), page)


class Listed:
    """Gives its slots as lists alone."""

    is_cpu = True

    def __init__(self, slots: list[int]) -> None:
        self._slots = slots

    def numel(self) -> int:
        return len(self._slots)

    def tolist(self) -> list[int]:
        return self._slots

    def __getitem__(self, part: slice) -> Listed:
        return Listed(self._slots[part])


@pytest.mark.parametrize("page", [1, 2, 64])
def test_few_are_read_without_the_array_library(page):
    """Its first call after a forward pass takes longer than all of a short prompt's slots."""
    count = FEW * page
    assert host_runs(Listed([*range(page, count), *range(page)]), page) == (
        2,
        1,
        pack_runs([(page, count - page), (0, page)]),
    )


class Whole(np.ndarray):
    """Slots of which none is to be had by itself; counts the elements of every array that comes of them."""

    elements = 0
    __iter__ = tolist = None

    def __array_finalize__(self, _source: object) -> None:
        Whole.elements += self.size

    def nonzero(self) -> tuple[np.ndarray, ...]:  # else the places where runs begin would be a plain array
        return tuple(found.view(Whole) for found in super().nonzero())


class Arrayed:
    """Gives its slots as an array alone."""

    is_cpu = True

    def __init__(self, slots: np.ndarray) -> None:
        self._slots = slots

    def numel(self) -> int:
        return len(self._slots)

    def numpy(self) -> np.ndarray:
        return self._slots.view(Whole)


def work(length: int, page: int) -> tuple[int, int]:
    """Of 32,000 slots in runs of ``length``: (calls, lines and returns of Python code, elements of arrays)."""
    slots = np.arange(32_000)
    given, steps = Arrayed(slots + slots // length), 0

    def step(*_: object) -> object:
        nonlocal steps
        steps += 1
        return step

    Whole.elements, others = 0, sys.gettrace()
    sys.settrace(step)
    try:
        host_runs(given, page)
    finally:
        sys.settrace(others)
    return steps, Whole.elements


@pytest.mark.parametrize(("length", "page"), [(32_000, 1), (16, 1), (1, 1), (32_000, 32), (32, 32), (16, 32)])
def test_of_many_slots_none_is_looked_at_by_python(length, page):
    """Nor any of their pages or runs, and all of them in a few passes: a scheduler waits for it."""
    steps, elements = work(length, page)
    assert steps < 200
    assert elements < 10 * 32_000


def test_whole_pages_take_less_than_all_of_their_slots():
    assert work(32, 32)[1] < work(32, 1)[1] / 2


@pytest.mark.parametrize(("pages", "given"), [(FEW, Listed), (FEW + 1, torch.tensor)], ids=["few", "many"])
def test_of_whole_pages_only_the_first_and_the_last_slot_are_read(pages, given):
    slots = [slot if slot % 64 in (0, 63) else 7 for slot in range(pages * 64)]
    assert host_runs(given(slots), 64) == (1, 1, pack_runs([(0, pages * 64)]))


def test_a_page_of_no_size_is_none():
    slots = [*range(FEW), 7]
    check(slots, torch.tensor(slots), 0)


@pytest.mark.parametrize("runs", [0, 1, 2, MAX_RUNS - 1, MAX_RUNS, MAX_RUNS + 1, 3 * MAX_RUNS])
@pytest.mark.parametrize(("length", "page"), [(1, 1), (3, 1), (3, 3), (6, 3)])
def test_up_to_as_many_as_a_record_holds(runs, length, page):
    slots = [10 * i + j for i in range(runs) for j in range(length)]
    check(slots, torch.tensor(slots, dtype=torch.int64), page)


@pytest.mark.parametrize("slots", [[5], [5, 6], [6, 5], [0], [(1 << 31) - 1]])
def test_the_shortest(slots):
    check(slots, torch.tensor(slots, dtype=torch.int64))
    check(slots, torch.tensor(slots, dtype=torch.int32))


def test_a_view_with_gaps_in_memory():
    base = torch.arange(100)
    check(list(range(0, 100, 2)), base[::2])
    check(list(range(40, 50)), base[40:50])


def test_under_inference_mode_as_in_the_scheduler():
    with torch.inference_mode():
        check([3, 4, 9], torch.tensor([3, 4, 9]))
        check([*range(FEW), 7], torch.tensor([*range(FEW), 7]))


@pytest.mark.parametrize("indices", [None, torch.empty(3, device="meta", dtype=torch.int64)], ids=["none", "device"])
def test_what_would_have_to_be_waited_for_is_not_read(indices):
    assert host_runs(indices) == (0, 0, b"")
