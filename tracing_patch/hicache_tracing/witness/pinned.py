"""Memory that the processor and the GPU both see."""

from __future__ import annotations

from ctypes import PyDLL, c_int64, c_size_t, c_void_p
from typing import Any

from hicache_tracing.witness.pools import WORD

_copy = PyDLL(None).memmove  # lets no other thread run meanwhile: that would take longer than it does
_copy.argtypes, _copy.restype = (c_void_p, c_void_p, c_size_t), None


class Pinned:
    """``count`` int64 numbers, zeros at first."""

    def __init__(self, count: int, torch: Any) -> None:
        self.tensor = torch.zeros(count, dtype=torch.int64, pin_memory=True)
        self.address: int = self.tensor.data_ptr()
        self.numbers = (c_int64 * count).from_address(self.address)
        self._kind = torch.int64

    def at(self, first: int, direct: bool) -> Any:
        """For a kernel: a tensor, or, as all that is launched directly needs, an address, which is much faster made."""
        return self.address + WORD * first if direct else self.tensor[first:]

    def write(self, first: int, numbers: Any, count: int) -> None:
        """Copy a tensor of the processor's here, which has that many numbers."""
        if numbers.dtype is self._kind and numbers.is_contiguous():  # straight: numpy() takes longer than the copy
            _copy(self.address + WORD * first, numbers.data_ptr(), WORD * count)
        else:
            self.tensor.numpy()[first : first + count] = numbers.numpy()  # the tensor's own copy starts threads
