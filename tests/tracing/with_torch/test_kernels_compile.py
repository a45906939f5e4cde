"""The kernels compile for the GPUs of three generations; that takes no GPU. Needs triton in the engine's Python."""

from __future__ import annotations

import re

import pytest

triton = pytest.importorskip("triton")
from triton.backends.compiler import GPUTarget  # noqa: E402
from triton.compiler import ASTSource  # noqa: E402

from hicache_tracing.witness import kernels  # noqa: E402
from hicache_tracing.witness.launch import PARAMETERS, UNUSUAL, WARPS  # noqa: E402

BYTES = {"seen"}
NUMBERS = {"count", "number"}
POINTERS = {"pointers", "keys", "rows", "slots", "signatures", "counts", "told"}


def compiled(kernel, architecture: int, buffers: int):
    constants = {"BUFFERS": buffers, "WIDTH": 128, "STRIDE": 128, "SLOTS": kernels.SLOTS, "WORDS": kernels.WORDS}
    names = kernel.arg_names
    signature = {
        name: "*i8" if name in BYTES else "*i64" if name in POINTERS else "i32" if name in NUMBERS else "constexpr"
        for name in names
    }
    constexprs = {(names.index(name),): value for name, value in constants.items() if name in names}
    source = ASTSource(fn=kernel, signature=signature, constexprs=constexprs)
    return triton.compile(source, target=GPUTarget("cuda", architecture, 32), options={"num_warps": WARPS})


@pytest.mark.filterwarnings("ignore:TRITON_DEFAULT_FP_FUSION")
@pytest.mark.parametrize("architecture", [80, 90, 100])
@pytest.mark.parametrize("buffers", [2, 56], ids=["sampled", "full"])
@pytest.mark.parametrize("kernel", [kernels._sign, kernels._compare], ids=["sign", "compare"])
def test_for(kernel, buffers, architecture):
    assert compiled(kernel, architecture, buffers).asm["cubin"]


@pytest.mark.filterwarnings("ignore:TRITON_DEFAULT_FP_FUSION")
@pytest.mark.parametrize("kernel", [kernels._sign, kernels._compare], ids=["sign", "compare"])
def test_what_is_launched_directly_takes_our_arguments_in_order_and_then_pointers_to_nothing(kernel):
    made = compiled(kernel, 90, 2)
    declared = re.findall(r"\.param \.(u32|u64)[^,)]*_param_\d+", made.asm["ptx"].split(".maxntid")[0])
    ours = [parameter.name for parameter in kernel.params if not parameter.is_constexpr]
    assert declared[: len(ours)] == ["u32" if name in NUMBERS else "u64" for name in ours]
    assert set(declared[len(ours) :]) <= {"u64"}
    assert len(ours) < len(declared) <= PARAMETERS
    assert not any(getattr(made.metadata, name, None) for name in UNUSUAL)
    assert made.metadata.num_ctas == 1


def test_whatever_differs_between_operations_is_not_specialised_on():
    """Else a kernel would be compiled anew for it, while the scheduler waits."""
    for kernel in (kernels._sign, kernels._compare):
        varies = [parameter for parameter in kernel.params if not parameter.is_constexpr]
        assert all(p.do_not_specialize or p.do_not_specialize_on_alignment for p in varies), kernel.arg_names
