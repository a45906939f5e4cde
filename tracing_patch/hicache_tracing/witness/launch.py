"""Two ways to launch a kernel: by Triton, which also compiles it, and, once that is done, by the driver at once.

Triton looks the compiled kernel up at every launch, from the types and values of all arguments. Ours is always the
same one: nothing that varies is specialised on.
"""

from __future__ import annotations

from ctypes import CDLL, Structure, addressof, byref, c_size_t, c_uint, c_uint64, c_void_p
from typing import Any

WARPS = 2
PARAMETERS = 16  # ours, at most 10, and what Triton appends to them
UNUSUAL = (  # in what Triton says of a compiled kernel: it would take more than a plain launch
    "global_scratch_size",  # 3.3
    "profile_scratch_size",  # 3.5
    "launch_cooperative_grid",
    "launch_pdl",  # 3.4
    "instrumentation_mode",  # 3.5; from 3.9 on with parameters of its own
)


class ByTriton:
    """One kernel, the tables that it always works on and its constants, launched with one row of programs."""

    def __init__(self, kernel: Any, tables: tuple[Any, ...], constants: tuple[int, ...]) -> None:
        self.tables = tables
        self.compiled: Any = None  # what was launched last
        self._kernel = kernel
        self._constants = constants

    def __call__(self, stream: Any, programs: int, *varying: Any) -> None:
        """``varying``: tensors and numbers."""
        import torch

        with torch.cuda.stream(stream):
            launch = self._kernel[(programs, 1, 1)]
            self.compiled = launch(*self.tables, *varying, *self._constants, num_warps=WARPS)


class _Config(Structure):
    """``CUlaunchConfig``."""

    _fields_ = (
        *((f"{what}{axis}", c_uint) for what in ("grid", "block") for axis in "XYZ"),
        ("shared", c_uint),
        ("stream", c_void_p),
        ("attributes", c_void_p),
        ("count", c_uint),
    )


class ByDriver:
    """The compiled kernel that Triton launched last, by ``cuLaunchKernelEx`` on the context that is current.

    Takes what Triton's own launcher (3.3 to 3.9) gives it: all arguments but the constants, then null pointers to
    scratch memory that it does not need. Each lies in a cell of 64 bits, of which the driver copies as many as the
    kernel declares. Raises ValueError for a kernel that would take more; OSError and AttributeError where there is no
    such driver (``cuFuncGetParamInfo``: CUDA 12.4).

    All that the driver is given is made once, and written to in place: nothing is to be converted at a launch.
    """

    def __init__(self, by_triton: ByTriton) -> None:
        self._compiled = compiled = by_triton.compiled  # owns the function
        self._function = c_void_p(compiled.function)
        metadata = compiled.metadata
        unusual = [name for name in UNUSUAL if getattr(metadata, name, None)]
        if unusual or metadata.num_ctas != 1 or tuple(getattr(metadata, "cluster_dims", (1, 1, 1))) != (1, 1, 1):
            raise ValueError(f"no plain launch: {metadata}")
        driver = CDLL("libcuda.so.1")  # lets other threads run: a launch waits where a thousand are queued
        self._launch = driver.cuLaunchKernelEx
        beyond = c_size_t(PARAMETERS)
        if not driver.cuFuncGetParamInfo(self._function, beyond, byref(c_size_t()), byref(c_size_t())):
            raise ValueError("more parameters than are known")
        self._config = _Config(1, 1, 1, 32 * metadata.num_warps, 1, 1, metadata.shared)
        self._stream: Any = None  # of the last launch
        tables = by_triton.tables
        self._cells = cells = (c_uint64 * PARAMETERS)(*[table.data_ptr() for table in tables])
        self._fixed = len(tables)
        self._parameters = (c_void_p * PARAMETERS)(*range(addressof(cells), addressof(cells) + 8 * PARAMETERS, 8))
        self._given = byref(self._config), self._function, self._parameters, None

    def __call__(self, stream: Any, programs: int, *varying: Any) -> None:
        """``varying``: addresses, numbers and tensors. Raises RuntimeError if the driver refuses."""
        config, cells, place = self._config, self._cells, self._fixed
        if stream is not self._stream:
            self._stream, config.stream = stream, stream.cuda_stream
        config.gridX = programs
        for one in varying:
            cells[place] = one if type(one) is int else one.data_ptr()
            place += 1
        if refused := self._launch(*self._given):
            raise RuntimeError(f"cuLaunchKernelEx: CUDA error {refused}")
