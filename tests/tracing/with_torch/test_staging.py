"""Host slots as the engine has them, real tensors of any kind, as a kernel finds them in the staging ring."""

from __future__ import annotations

from collections import deque
from contextlib import nullcontext
from ctypes import c_int64
from types import SimpleNamespace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from hicache_tracing.witness import cuda
from hicache_tracing.witness.pinned import Pinned

RING = 64


class Torch:
    """Torch without a GPU to pin memory for."""

    int64 = torch.int64
    cuda = SimpleNamespace(stream=lambda _stream: nullcontext())

    @staticmethod
    def zeros(count, *, dtype, pin_memory):
        assert pin_memory
        return torch.zeros(count, dtype=dtype)

    empty = zeros


def witness(direct):
    made = cuda.CudaWitness.__new__(cuda.CudaWitness)
    made._torch, made._device, made._stream = Torch, "cpu", SimpleNamespace(query=lambda: False)
    made._staging, made._staged = Pinned(RING, Torch), 0
    made._loose, made._pending, made._signing = False, deque(), {1: "under way"}
    made.kernels = SimpleNamespace(direct=direct)
    return made


def read(place, count):
    return list((c_int64 * count).from_address(place)) if type(place) is int else place[:count].tolist()


KINDS = {
    "plain": torch.clone,
    "a part": lambda numbers: torch.cat([numbers, numbers])[numbers.numel() :],
    "strided": lambda numbers: numbers.repeat_interleave(3)[::3],
    "narrow": lambda numbers: numbers.to(torch.int32),
}
slots = st.lists(st.integers(0, (1 << 31) - 1), max_size=2 * RING)


@pytest.fixture(autouse=True, scope="module")
def small():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cuda, "STAGED", RING)
        yield


@given(st.lists(st.tuples(slots, st.sampled_from(sorted(KINDS))), max_size=8), st.booleans())
def test_every_operation_under_way_finds_its_own(operations, direct):
    """Those that no longer fit have a copy of their own."""
    gpu = witness(direct)
    staged = [gpu._host(KINDS[kind](torch.tensor(numbers, dtype=torch.int64))) for numbers, kind in operations]
    assert [read(place, len(numbers)) for place, (numbers, _) in zip(staged, operations, strict=True)] == [
        numbers for numbers, _ in operations
    ]
    assert gpu._staged <= RING


@pytest.mark.parametrize("direct", [True, False])
def test_the_ring_is_filled_to_its_end_and_not_beyond(direct):
    gpu = witness(direct)
    places = [gpu._host(torch.arange(count)) for count in (RING - 3, 3, 0, 1)]
    assert gpu._staged == RING
    assert [type(place) is int for place in places] == [direct, direct, direct, False]
    gpu._signing.clear()
    assert read(gpu._host(torch.arange(50, 55)), 5) == list(range(50, 55))
    assert gpu._staged == 5
    assert gpu._staging.numbers[:6] == [*range(50, 55), 5]
