"""How a kernel is launched: by Triton, which finds the compiled one anew each time, or the compiled one at once."""

from __future__ import annotations

from typing import Any

WARPS = 2


class Launch:
    """One Triton kernel, the tables that it always works on and its constants, launched with one row of programs.

    Triton looks the compiled kernel up at every launch, from the types and values of all arguments: that is most of
    what a launch costs the scheduler's thread. Ours is always the same one (nothing that varies is specialised on), so
    it is kept, once ``keep`` was called. From Triton 3.3 on a compiled kernel takes what Triton itself would give it:
    all arguments, the constants after them. An older one refuses; it is then launched as ever.

    The kept one is given addresses instead of tensors: of each tensor Triton would ask the driver where it lies.
    """

    def __init__(self, kernel: Any, tables: tuple[Any, ...], constants: tuple[int, ...]) -> None:
        self.kept: Any = None
        self._kernel = kernel
        self._tables = tables
        self._addresses = tuple(map(address, tables))
        self._constants = constants
        self._last: Any = None

    def __call__(self, stream: Any, programs: int, *varying: Any) -> None:
        grid = (programs, 1, 1)
        if stream is None:
            self._last = self._kernel[grid](*self._tables, *varying, *self._constants, num_warps=WARPS)
        elif self.kept is not None:
            plain = [one if type(one) is int else address(one) for one in varying]
            self.kept[grid](*self._addresses, *plain, *self._constants, stream=stream.cuda_stream)
        else:
            import torch

            with torch.cuda.stream(stream):
                self._last = self._kernel[grid](*self._tables, *varying, *self._constants, num_warps=WARPS)

    def keep(self) -> None:
        """From now on launch the kernel that was launched last, on streams that are given."""
        self.kept = self._last

    def forget(self) -> None:
        self.kept = None


def address(tensor: Any) -> Any:
    return tensor.data_ptr()
