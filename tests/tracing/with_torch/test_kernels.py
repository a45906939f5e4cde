"""The GPU's content witness with its real kernels, run by Triton's interpreter: no GPU is needed, streams are in order.

It must say of every sequence of operations what the witness on the CPU says. Needs triton in the engine's Python.
"""

from __future__ import annotations

import os
import random
import sys
from contextlib import nullcontext
from ctypes import CFUNCTYPE, POINTER, c_int, c_int8, c_int32, c_int64, c_size_t, c_void_p
from types import SimpleNamespace

import pytest

os.environ["TRITON_INTERPRET"] = "1"  # before triton is first imported
pytest.importorskip("triton")
import numpy
import torch

from hicache_tracing.records import ContentMode
from hicache_tracing.witness import cuda, kernels, launch
from hicache_tracing.witness.cpu import CpuWitness

SLOTS, HOST = 64, 200
ALWAYS = {0: "back up", 1: "load", 8: "damage", 20: "forget"}
WHAT = [*["back up"] * 3, *["load"] * 5, *["damage"] * 2, "overwrite"]


class OnDevice(torch.Tensor):
    """Row numbers that say that they lie on a GPU."""

    is_cuda = True

    def record_stream(self, _stream) -> None: ...


class Stream:
    cuda_stream = 7

    def wait_stream(self, _stream) -> None: ...

    def query(self) -> bool:
        return True


def on_cpu(name):
    def make(*shape, pin_memory=False, **how):
        return getattr(torch, name)(*shape, **how)

    return make


CUDA = SimpleNamespace(
    Stream=lambda _device: Stream(),
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


EVENT = SimpleNamespace(wait=lambda stream: stream.cuda_stream)
ACK = SimpleNamespace(start_event=EVENT, finish_event=EVENT)


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


@pytest.mark.parametrize("kernel", ["sign", "compare"])
def test_a_kernel_tells_once_all_its_programs_have_read_and_not_before(witnesses, kernel):
    gpu, *_ = witnesses()
    rows, slots, told = torch.arange(9), torch.arange(30, 39), torch.full((2,), cuda.NOT_TOLD)
    run = {
        "sign": lambda: gpu.kernels.sign(rows, slots, 9, told, 7, Stream()),
        "compare": lambda: gpu.kernels.compare(rows, slots, 9, told, Stream()),
    }[kernel]
    gpu._counts[2] = -1  # as if it were one program more
    run()
    assert told.tolist() == [cuda.NOT_TOLD] * 2
    gpu._counts.zero_()
    run()
    assert told.tolist() == {"sign": [7, cuda.NOT_TOLD], "compare": [0, 9]}[kernel]


class Jit:
    """A kernel that the interpreter runs, and that gives out a compiled one, as Triton does."""

    def __init__(self, kernel, function):
        self.kernel, self.function = kernel, function
        self.arguments = None  # of the last launch

    def __getitem__(self, grid):
        def run(*arguments, num_warps):
            self.arguments = arguments
            self.kernel[grid](*arguments, num_warps=num_warps)
            metadata = SimpleNamespace(num_warps=num_warps, num_ctas=1, shared=0)
            return SimpleNamespace(function=self.function, metadata=metadata)

        return run


def number(cell):
    return c_int32.from_address(cell).value


def tensor(cell, like, count):
    kind = c_int8 if like.dtype is torch.int8 else c_int64
    numbers = (kind * count).from_address(c_int64.from_address(cell).value)
    return torch.from_numpy(numpy.ctypeslib.as_array(numbers))


class Driver:
    """``libcuda.so.1``, by which the interpreter is launched. It finds all arguments by their addresses."""

    def __init__(self, jits, answer=0, does=lambda run: run()):
        self.jits, self.answer, self.does = {jit.function: jit for jit in jits}, answer, does
        self.launched = 0
        self.cuLaunchKernelEx = CFUNCTYPE(c_int, c_void_p, c_void_p, POINTER(c_void_p), c_void_p)(self._launch)
        self.cuFuncGetParamInfo = CFUNCTYPE(c_int, c_void_p, c_size_t, c_void_p, c_void_p)(lambda *_: 1)

    def _launch(self, config, function, parameters, _extra):
        how = launch._Config.from_address(config)
        assert how.stream == Stream.cuda_stream
        programs = how.gridX
        self.launched += 1
        jit = self.jits[function]
        ours, constants = jit.arguments[:-5], jit.arguments[-5:]
        names = jit.kernel.arg_names
        count = number(parameters[names.index("count")])
        sizes = {"rows": count, "slots": count, "told": 2 if "number" not in names else 1}
        arguments = [
            number(cell) if type(like) is int else tensor(cell, like, sizes.get(name, like.numel()))
            for cell, like, name in zip(parameters[: len(ours)], ours, names, strict=False)
        ]
        self.does(lambda: jit.kernel[(programs, 1, 1)](*arguments, *constants, num_warps=launch.WARPS))
        return self.answer


@pytest.fixture
def driver(monkeypatch):
    """Triton compiles, and the driver can be loaded and does as told."""

    def make(**how):
        jits = Jit(kernels._sign, 1), Jit(kernels._compare, 2)
        for name, jit in zip(("_sign", "_compare"), jits, strict=True):
            monkeypatch.setattr(kernels, name, jit)
        made = Driver(jits, **how)
        monkeypatch.setattr(launch, "CDLL", lambda _name: made)
        return made

    return make


def test_the_compiled_kernels_are_launched_directly_if_they_find_the_same(witnesses, driver):
    made = driver()
    gpu, cpu, _ = witnesses()
    assert gpu.kernels.direct
    before = made.launched
    agree_on_a_few_operations(gpu, cpu)
    assert made.launched - before == 6


def agree_on_a_few_operations(gpu, cpu):
    rows, slots = torch.arange(9), torch.arange(30, 39)
    narrow, strided = slots.to(torch.int32), torch.arange(60, 78)[::2]
    for witness in (gpu, cpu):
        for transfer, host in enumerate((slots, narrow, strided)):
            witness.backed_up(transfer, [operation(rows, host)], ACK)
            witness.backup_finished(transfer)
        witness.loaded(4, [operation(rows, slots)], ACK)
        witness.loaded(5, [operation(rows[:4], slots[:4]), operation(rows[4:], strided[4:])], ACK)
        witness.loaded(6, [operation(rows, slots + 2)], ACK)
    assert told(gpu) == told(cpu) == [(4, 9, 0, 0), (5, 9, 0, 0), (6, 9, 7, 2)]


def nothing(_run):
    pass


@pytest.mark.parametrize("how", [{"does": nothing}, {"answer": 1}], ids=["nothing", "refuses"])
def test_and_are_not_if_they_find_something_else_or_the_driver_refuses(witnesses, driver, how):
    made = driver(**how)
    gpu, cpu, _ = witnesses()
    assert not gpu.kernels.direct
    assert made.launched, "it was tried"
    before = made.launched
    agree_on_a_few_operations(gpu, cpu)
    assert made.launched == before


def test_a_launch_that_fails_later_is_a_fault_and_no_comparison(witnesses, driver):
    made = driver()
    gpu, *_ = witnesses()
    made.answer = 719
    with pytest.raises(RuntimeError, match="719"):
        gpu.loaded(1, [operation(torch.arange(9), torch.arange(9))], ACK)
    made.answer = 0
    assert told(gpu) == []


def test_after_the_warm_up_nothing_is_known(witnesses):
    gpu, _, _ = witnesses()
    assert not gpu._seen.any()
    assert not gpu._counts.any()
    assert not any(gpu._told.numbers)
    assert told(gpu) == []
