"""A compiled kernel launched by the driver at once: what a stand-in driver, called as the real one is, finds there."""

from __future__ import annotations

import struct
from ctypes import CFUNCTYPE, POINTER, c_int, c_int32, c_size_t, c_uint64, c_void_p, cast, string_at
from types import SimpleNamespace

import pytest

from hicache_tracing.witness import launch
from hicache_tracing.witness.launch import PARAMETERS, ByDriver, ByTriton

FUNCTION, STREAM = 0x7F00_1234_5678, SimpleNamespace(cuda_stream=0x55AA_0000_1111)
HIGH = 0xFFFF_7F12_3456_7890  # an address of which every bit counts
INVALID_VALUE = 1
CONFIG = struct.Struct("@7IPPI")  # CUlaunchConfig of cuda.h: grid, block, shared memory, stream, attributes, count


class Driver:
    """``libcuda.so.1``: notes the launches it is asked for. ``parameters``: what the kernel declares."""

    def __init__(self, parameters: int) -> None:
        self.parameters, self.answer, self.launched = parameters, 0, []
        self.cuLaunchKernelEx = CFUNCTYPE(c_int, c_void_p, c_void_p, POINTER(c_void_p), c_void_p)(self._launch)
        self.cuFuncGetParamInfo = CFUNCTYPE(c_int, c_void_p, c_size_t, POINTER(c_size_t), POINTER(c_size_t))(self._info)

    def _launch(self, config, function, parameters, extra):
        *how, stream, _attributes, attributes = CONFIG.unpack(string_at(config, CONFIG.size))
        wide = [cast(parameters[place], POINTER(c_uint64))[0] for place in range(self.parameters)]
        narrow = [cast(parameters[place], POINTER(c_int32))[0] for place in range(self.parameters)]
        self.launched.append(
            SimpleNamespace(
                how=how, function=function, stream=stream, attributes=attributes, wide=wide, narrow=narrow, extra=extra
            )
        )
        return self.answer

    def _info(self, function, place, offset, size):
        if function != FUNCTION or place >= self.parameters:
            return INVALID_VALUE
        offset[0], size[0] = 8 * place, 8
        return 0


class At:
    """A tensor."""

    def __init__(self, address: int) -> None:
        self.address = address

    def data_ptr(self) -> int:
        return self.address


def compiled(**metadata):
    metadata = {"num_warps": 2, "num_ctas": 1, "shared": 64, **metadata}
    return SimpleNamespace(function=FUNCTION, metadata=SimpleNamespace(**metadata))


@pytest.fixture
def driver(monkeypatch):
    made = Driver(parameters=8)
    monkeypatch.setattr(launch, "CDLL", lambda name: {"libcuda.so.1": made}[name])
    return made


def directly(kernel):
    by_triton = ByTriton(None, (At(HIGH), At(2)), (512, 128))
    by_triton.compiled = kernel
    return ByDriver(by_triton)


def test_the_kernel_gets_tables_and_what_varies_and_no_constant_and_null_for_scratch(driver):
    directly(compiled())(STREAM, 3, At(HIGH + 1), HIGH + 2, 11, At(5))
    (one,) = driver.launched
    assert one.how == [3, 1, 1, 64, 1, 1, 64]
    assert (one.function, one.stream, one.attributes) == (FUNCTION, STREAM.cuda_stream, 0)
    assert one.wide == [HIGH, 2, HIGH + 1, HIGH + 2, 11, 5, 0, 0]
    assert one.narrow[4] == 11, "of a count the kernel reads 32 bits"
    assert one.extra is None


def test_each_launch_has_its_own_arguments(driver):
    run = directly(compiled(num_warps=4, shared=0))
    run(STREAM, 3, At(3), 4, 11)
    run(SimpleNamespace(cuda_stream=0), 1, At(7), At(8), 1)
    first, second = driver.launched
    assert first.wide == [HIGH, 2, 3, 4, 11, 0, 0, 0]
    assert second.wide == [HIGH, 2, 7, 8, 1, 0, 0, 0]
    assert second.how == [1, 1, 1, 128, 1, 1, 0]
    assert second.stream == 0, "the default one"


def test_what_the_driver_refuses_is_said(driver):
    run = directly(compiled())
    driver.answer = 700
    with pytest.raises(RuntimeError, match="700"):
        run(STREAM, 3, At(3), 4, 11)


@pytest.mark.parametrize(
    "unusual",
    [
        {"global_scratch_size": 128},
        {"profile_scratch_size": 1},
        {"launch_cooperative_grid": True},
        {"launch_pdl": True},
        {"instrumentation_mode": "gsan"},
        {"num_ctas": 2},
        {"cluster_dims": (2, 1, 1)},
    ],
)
def test_a_kernel_that_takes_more_than_a_plain_launch_is_left_to_triton(driver, unusual):
    with pytest.raises(ValueError, match="no plain launch"):
        directly(compiled(**unusual))


def test_what_releases_say_of_an_ordinary_kernel_is_no_reason(driver):
    directly(
        compiled(
            global_scratch_size=0, profile_scratch_size=0, launch_cooperative_grid=False, launch_pdl=False,
            instrumentation_mode="", cluster_dims=[1, 1, 1],
        )
    )  # fmt: skip


def test_a_kernel_with_parameters_that_nobody_knows_is_left_to_triton(driver):
    driver.parameters = PARAMETERS
    directly(compiled())
    driver.parameters = PARAMETERS + 1
    with pytest.raises(ValueError, match="more parameters"):
        directly(compiled())


@pytest.mark.parametrize("kernel", [None, SimpleNamespace(metadata=compiled().metadata)])
def test_what_another_triton_gives_out_is_no_compiled_kernel(driver, kernel):
    with pytest.raises(AttributeError):
        directly(kernel)


def test_without_the_driver_it_is_left_to_triton(monkeypatch):
    def missing(name):
        raise OSError(name)

    monkeypatch.setattr(launch, "CDLL", missing)
    with pytest.raises(OSError, match=r"libcuda\.so\.1"):
        directly(compiled())
