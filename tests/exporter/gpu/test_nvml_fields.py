"""The prepared driver call, on a library that fills pynvml's own structures."""

from ctypes import c_int32
from types import SimpleNamespace

import pynvml
import pytest

from hicache_exporter.sources.nvml_fields import FieldValues


class Library:
    """``nvmlDeviceGetFieldValues`` as NVML declares it; each field's value is ten times its number."""

    def __init__(self, code=0, codes=None):
        self.code, self.codes, self.asked = code, codes or {}, []

    def nvmlDeviceGetFieldValues(self, handle, count, pointer):  # noqa: N802  the name is NVML's
        assert isinstance(count, c_int32)
        array = pointer._obj
        assert len(array) == count.value
        self.asked.append((handle, [(entry.fieldId, entry.scopeId) for entry in array]))
        for entry in array:
            entry.timestamp = entry.latencyUsec = -1
            entry.valueType = pynvml.NVML_VALUE_TYPE_UNSIGNED_INT
            entry.nvmlReturn = self.codes.get(entry.fieldId, 0)
            entry.value.ullVal = (7 << 32) + 10 * entry.fieldId
        return self.code


def fields(library, *numbers):
    nvml = SimpleNamespace(
        nvmlLib=library, **{name: getattr(pynvml, name) for name in dir(pynvml) if name[:4] != "nvml"}
    )
    nvml.c_nvmlFieldValue_t = pynvml.c_nvmlFieldValue_t
    return FieldValues(nvml, "GPU-a", numbers)


def test_one_field_or_several_are_read_in_their_order_again_and_again():
    library = Library()
    assert fields(library, 198).read() == (1980,)
    pair = fields(library, 198, 197)
    assert [pair.read(), pair.read()] == [(1980, 1970)] * 2
    assert library.asked[1:] == [("GPU-a", [(198, 0), (197, 0)])] * 2


@pytest.mark.parametrize(
    "library",
    [
        Library(code=pynvml.NVML_ERROR_GPU_IS_LOST),
        Library(codes={197: pynvml.NVML_ERROR_GPU_IS_LOST}),
        Library(codes={198: pynvml.NVML_ERROR_GPU_IS_LOST}),
    ],
)
def test_a_call_or_a_field_that_fails_is_nvmls_own_error(library):
    with pytest.raises(pynvml.NVMLError_GpuIsLost):
        fields(library, 197, 198).read()


def test_a_library_without_the_call_is_told_apart():
    with pytest.raises(pynvml.NVMLError_FunctionNotFound):
        fields(SimpleNamespace(), 197)
