"""Host slots as the engine has them, real tensors of any kind, as a kernel finds them in the staging ring."""

from __future__ import annotations

import sys
from contextlib import nullcontext
from ctypes import c_int64
from types import SimpleNamespace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from hicache_tracing.records import ContentMode
from hicache_tracing.witness import cuda

RING = 64
HOST = 1 << 8


class OnDevice(torch.Tensor):
    """Row numbers that say that they lie on a GPU."""

    is_cuda = True

    def record_stream(self, _stream) -> None: ...


class Torch:
    """Torch without a GPU to pin memory for. What our stream is given to do is never done."""

    cuda = SimpleNamespace(
        Stream=lambda _device: SimpleNamespace(query=lambda: False), stream=lambda _stream: nullcontext()
    )

    @staticmethod
    def zeros(count, *, dtype, device=None, pin_memory=False):
        assert pin_memory == (device is None)
        return torch.zeros(count, dtype=dtype)

    empty = zeros

    def __getattr__(self, name):
        return getattr(torch, name)


class Kernels:
    """They note where the slots of each signing lie, and have signed when they are told so."""

    def __init__(self, direct):
        self.direct = direct
        self.staged = []
        self._last = None

    def sign(self, _rows, slots, count, told, number, _stream):
        self.staged.append((slots, count))
        self._last = told, number

    def run(self):
        told, number = self._last
        if self.direct:
            c_int64.from_address(told).value = number
        else:
            told[0] = number

    def read(self):
        """What each of them finds."""
        return [
            list((c_int64 * count).from_address(place)) if type(place) is int else place[:count].tolist()
            for place, count in self.staged
        ]


@pytest.fixture(autouse=True, scope="module")
def small():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cuda, "STAGED", RING)
        patch.setattr(cuda.CudaWitness, "_warm_up", lambda _self: None)
        yield


def witness(direct):
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sys.modules, "torch", Torch())
        made = SimpleNamespace(Kernels=lambda *_, **__: Kernels(direct))
        patch.setitem(sys.modules, "hicache_tracing.witness.kernels", made)
        return cuda.CudaWitness([torch.zeros(4, 8, dtype=torch.int64)], HOST, ContentMode.FULL)


ACK = SimpleNamespace(start_event=SimpleNamespace(wait=lambda _stream: None))


def back_up(gpu, transfer, host):
    rows = torch.zeros(host.numel(), dtype=torch.int64).as_subclass(OnDevice)
    gpu.backed_up(transfer, [SimpleNamespace(host_indices=host, device_indices=rows)], ACK)


KINDS = {
    "plain": torch.clone,
    "a part": lambda numbers: torch.cat([numbers, numbers])[numbers.numel() :],
    "strided": lambda numbers: numbers.repeat_interleave(3)[::3],
    "narrow": lambda numbers: numbers.to(torch.int32),
}
slots = st.lists(st.integers(0, (1 << 31) - 1), min_size=1, max_size=2 * RING)


@given(st.lists(st.tuples(slots, st.sampled_from(sorted(KINDS))), max_size=8), st.booleans())
def test_every_operation_under_way_finds_its_own(operations, direct):
    """Those that no longer fit have a copy of their own."""
    gpu = witness(direct)
    for transfer, (numbers, kind) in enumerate(operations):
        back_up(gpu, transfer, KINDS[kind](torch.tensor(numbers, dtype=torch.int64)))
    assert gpu.kernels.read() == [numbers for numbers, _ in operations]


@pytest.mark.parametrize("direct", [True, False])
def test_the_ring_is_filled_to_its_end_and_not_beyond_and_then_from_its_beginning(direct):
    gpu = witness(direct)
    for transfer, count in enumerate((RING - 3, 3, 1)):
        back_up(gpu, transfer, torch.arange(count))
    assert [type(place) is int for place, _ in gpu.kernels.staged] == [direct, direct, False]
    gpu.kernels.run()
    for transfer in range(3):
        gpu.backup_finished(transfer)
    back_up(gpu, 4, torch.arange(50, 55))
    first, *_, last = gpu.kernels.read()
    assert last == first[:5] == list(range(50, 55)), "written over"
