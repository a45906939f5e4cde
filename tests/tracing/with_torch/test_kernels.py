"""The GPU's content witness with its real kernels, run by Triton's interpreter: no GPU is needed, streams are in order.

It must say of every sequence of operations what the witness on the CPU says. Needs triton in the engine's Python.
"""

from __future__ import annotations

import os
import random
import sys
from contextlib import nullcontext
from types import SimpleNamespace

import pytest

os.environ["TRITON_INTERPRET"] = "1"  # before triton is first imported
pytest.importorskip("triton")
import torch

from hicache_tracing.records import ContentMode
from hicache_tracing.witness import cuda, launch
from hicache_tracing.witness.cpu import CpuWitness

SLOTS, HOST = 64, 200
ALWAYS = {0: "back up", 1: "load", 8: "damage", 20: "forget"}
WHAT = [*["back up"] * 3, *["load"] * 5, *["damage"] * 2, "overwrite"]


class OnDevice(torch.Tensor):
    """Row numbers that say that they lie on a GPU."""

    is_cuda = True

    def record_stream(self, _stream) -> None: ...


class Event:
    def record(self, _stream) -> None: ...

    def query(self) -> bool:
        return True


class Stream:
    cuda_stream = 7

    def wait_event(self, _event) -> None: ...

    def wait_stream(self, _stream) -> None: ...

    def query(self) -> bool:
        return True


def on_cpu(name):
    def make(*shape, pin_memory=False, **how):
        return getattr(torch, name)(*shape, **how)

    return make


CUDA = SimpleNamespace(
    Stream=lambda _device: Stream(),
    Event=Event,
    stream=lambda _stream: nullcontext(),
    current_stream=lambda _device: Stream(),
    synchronize=lambda _device: None,
)


class Torch:
    """Torch whose GPU is the CPU."""

    cuda = CUDA
    zeros, empty = staticmethod(on_cpu("zeros")), staticmethod(on_cpu("empty"))

    def __getattr__(self, name):
        return getattr(torch, name)


@pytest.fixture
def witnesses(monkeypatch):
    """(the GPU's, the CPU's, their buffers), with the same keys."""

    def make(mode=ContentMode.FULL, layers=2):
        buffers = [torch.randn(SLOTS, 2, 96, dtype=torch.bfloat16) for _ in range(2 * layers)]
        cpu = CpuWitness(buffers, HOST, mode)
        monkeypatch.setitem(sys.modules, "torch", Torch())
        monkeypatch.setattr(cuda, "draw_keys", lambda *_: cpu._keys)
        gpu = cuda.CudaWitness(buffers, HOST, mode)
        monkeypatch.setitem(sys.modules, "torch", torch)
        gpu._torch = Torch()
        return gpu, cpu, buffers

    return make


def operation(device, host):
    return SimpleNamespace(device_indices=device.as_subclass(OnDevice), host_indices=host)


ACK = SimpleNamespace(start_event=None, finish_event=None)


def told(witness):
    """(transfer, checked, mismatched, unseen) of each comparison."""
    written = []
    witness.report(lambda _kind, _rid, *numbers: written.append(numbers[:4]))
    return written


@pytest.mark.parametrize("layers", [1, 3], ids=["few buffers", "many"])
@pytest.mark.parametrize("count", [1, 3, 4, 5, 21, 64])
def test_signatures_are_those_of_the_cpu(witnesses, count, layers):
    gpu, cpu, _ = witnesses(layers=layers)
    rows, slots = torch.randperm(SLOTS)[:count], torch.randperm(HOST)[:count]
    gpu.backed_up(1, [operation(rows, slots)], ACK)
    assert torch.equal(gpu.signatures[slots], cpu.sign(rows))
    assert int(gpu._seen.sum()) == count, "and no other slot was touched"


@pytest.mark.parametrize("seed", range(5))
def test_they_agree_on_whatever_happens(witnesses, seed):
    gpu, cpu, buffers = witnesses()
    chance = random.Random(seed)
    torch.manual_seed(seed)
    found = []
    for transfer in range(40):
        slots = torch.randperm(60)[: 60 if transfer in ALWAYS else chance.randrange(4, 24)]
        parts = [operation(part % SLOTS, part) for part in (slots[:3], slots[3:])]
        what = ALWAYS.get(transfer) or chance.choice(WHAT)
        if what == "damage":
            buffers[chance.randrange(len(buffers))][slots[:20]] += 1
        for witness in (gpu, cpu):
            if what == "back up":
                witness.backed_up(transfer, parts, ACK)
                witness.backup_finished(transfer)
            elif what == "load":
                witness.loaded(transfer, parts, ACK)
            elif what == "overwrite":
                witness.overwritten(slots)
            elif what == "forget":
                witness.forget()
        said = told(gpu)
        assert said == told(cpu)
        found += said
    assert any(mismatched for _, _, mismatched, _ in found)
    assert any(unseen for _, _, _, unseen in found)
    assert any(checked > mismatched + unseen for _, checked, mismatched, unseen in found), "intact ones"


def test_a_load_of_no_row_of_the_kv_pool_says_so_and_counts_nothing_twice(witnesses):
    """A hybrid controller may load other pools' rows only: a launch of no program would tell nothing."""
    gpu, cpu, _ = witnesses()
    for transfer, count in enumerate((9, 0, 4)):
        for witness in (gpu, cpu):
            witness.loaded(transfer, [operation(torch.arange(count), torch.arange(30, 30 + count))], ACK)
        assert told(gpu) == told(cpu) == [(transfer, count, 0, count)]


class Compiled:
    """A compiled kernel as Triton gives it out: it takes all arguments, the constants with them, and a stream."""

    def __init__(self, kernel, does=lambda run: run()):
        self.kernel, self.does, self.launched = kernel, does, 0

    def __getitem__(self, grid):
        def run(*arguments, stream):
            assert stream == Stream.cuda_stream
            self.launched += 1
            self.does(lambda: self.kernel[grid](*arguments))

        return run


@pytest.fixture
def compiled(monkeypatch):
    """Makes every kernel give out a compiled one that does as told."""
    given = []

    def keep_as(does):
        def keep(self):
            self.kept = Compiled(self._kernel, does)
            given.append(self.kept)

        monkeypatch.setattr(launch.Launch, "keep", keep)
        monkeypatch.setattr(launch, "address", lambda tensor: tensor)  # the interpreter follows no address
        return given

    return keep_as


def test_the_compiled_kernels_are_launched_directly_if_they_find_the_same(witnesses, compiled):
    given = compiled(lambda run: run())
    gpu, cpu, _ = witnesses()
    before = [kernel.launched for kernel in given]
    rows, slots = torch.arange(9), torch.arange(30, 39)
    for witness in (gpu, cpu):
        witness.backed_up(1, [operation(rows, slots)], ACK)
        witness.loaded(2, [operation(rows, slots)], ACK)
    assert [kernel.launched - last for kernel, last in zip(given, before, strict=True)] == [1, 1]
    assert told(gpu) == told(cpu) == [(2, 9, 0, 0)]


def nothing(_run):
    pass


def refuses(_run):
    raise TypeError("function takes exactly 16 arguments (21 given)")


@pytest.mark.parametrize("does", [nothing, refuses])
def test_and_are_not_if_they_refuse_or_find_something_else(witnesses, compiled, does):
    given = compiled(does)
    gpu, cpu, _ = witnesses()
    assert [one.kept for one in gpu.kernels.launches] == [None] * 2
    launched = [kernel.launched for kernel in given]
    rows, slots = torch.arange(9), torch.arange(30, 39)
    for witness in (gpu, cpu):
        witness.backed_up(1, [operation(rows, slots)], ACK)
        witness.loaded(2, [operation(rows, slots)], ACK)
    assert [kernel.launched for kernel in given] == launched
    assert told(gpu) == told(cpu) == [(2, 9, 0, 0)]


def test_a_kept_kernel_is_given_addresses_and_numbers(witnesses, monkeypatch):
    gpu, _, _ = witnesses()
    given = []
    for one in gpu.kernels.launches:
        one.kept = {(3, 1, 1): lambda *arguments, stream: given.append(arguments)}
    rows, slots = torch.arange(9), torch.arange(30, 39)
    gpu.kernels.sign(rows, slots, Stream())
    gpu.kernels.compare(rows, slots, gpu._copies[1], Stream())
    tables = gpu.signatures.data_ptr(), gpu._seen.data_ptr()
    lie = rows.data_ptr(), slots.data_ptr(), 9
    assert [arguments[2:7] for arguments in given] == [(*tables, *lie), (*tables, gpu._counts.data_ptr(), *lie[:2])]
    assert given[1][7:9] == (9, gpu._copies[1].data_ptr())
    assert all(type(number) is int for arguments in given for number in arguments)


def test_after_the_warm_up_nothing_is_known(witnesses):
    gpu, _, _ = witnesses()
    assert not gpu._seen.any()
    assert not gpu._counts.any()
    assert told(gpu) == []
