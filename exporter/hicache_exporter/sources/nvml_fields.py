"""A driver call for a GPU's field values, made ready once: what is left to do 50 times a second is the call itself.

``pynvml.nvmlDeviceGetFieldValues`` builds the array of structures anew each time and reads them through attributes
written in Python, in code that runs with cold caches. Here array and arguments are kept, the values are read from the
array's memory, and the function is the one of the library that pynvml has loaded.
"""

from __future__ import annotations

import struct
from ctypes import byref, c_int32, sizeof
from functools import partial
from typing import Any


class FieldValues:
    """The 32-bit values of some fields of one GPU."""

    def __init__(self, nvml: Any, handle: Any, fields: tuple[int, ...]) -> None:
        """Raises NVMLError_FunctionNotFound where the driver's library has no such call."""
        self._nvml = nvml
        values = (nvml.c_nvmlFieldValue_t * len(fields))()
        for value, field in zip(values, fields, strict=True):
            value.fieldId = field
        try:
            function = nvml.nvmlLib.nvmlDeviceGetFieldValues
        except AttributeError:
            raise nvml.NVMLError(nvml.NVML_ERROR_FUNCTION_NOT_FOUND) from None
        self._call = partial(function, handle, c_int32(len(fields)), byref(values))
        self._unpack = partial(_layout(nvml.c_nvmlFieldValue_t, len(fields)).unpack_from, values)

    def read(self) -> tuple[int, ...]:
        """The values now, in the order of the fields. Raises NVMLError if the call or any of the fields fails."""
        status, found = self._call(), self._unpack()
        failures = found[::2]
        if status or any(failures):
            raise self._nvml.NVMLError(status or max(failures))
        return found[1::2]


def _layout(structure: Any, count: int) -> struct.Struct:
    """Where each structure of an array has its return code and the low 32 bits of its value."""
    code, value = structure.nvmlReturn.offset, structure.value.offset
    one = f"{code}xI{value - code - 4}xI{sizeof(structure) - value - 4}x"
    return struct.Struct("=" + one * count)
