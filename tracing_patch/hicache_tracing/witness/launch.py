"""How a kernel is launched: by Triton, which finds the compiled one anew each time, or the compiled one at once."""

from __future__ import annotations

from typing import Any

WARPS = 2


class Launch:
    """One Triton kernel and its constants, launched with one row of programs.

    Triton looks the compiled kernel up at every launch, from the types and values of all arguments: that is most of
    what a launch costs the scheduler's thread. Ours is always the same one (nothing that varies is specialised on), so
    it is kept, once ``keep`` was called. From Triton 3.3 on a compiled kernel takes what Triton itself would give it:
    all arguments, the constants after them. An older one refuses; it is then launched as ever.
    """

    def __init__(self, kernel: Any, *constants: int) -> None:
        self.kept: Any = None
        self._kernel = kernel
        self._constants = constants
        self._last: Any = None

    def __call__(self, stream: Any, programs: int, *arguments: Any) -> None:
        grid = (programs, 1, 1)
        if stream is None:
            self._last = self._kernel[grid](*arguments, *self._constants, num_warps=WARPS)
        elif self.kept is not None:
            self.kept[grid](*arguments, *self._constants, stream=stream.cuda_stream)
        else:
            import torch

            with torch.cuda.stream(stream):
                self._last = self._kernel[grid](*arguments, *self._constants, num_warps=WARPS)

    def keep(self) -> None:
        """From now on launch the kernel that was launched last, on streams that are given."""
        self.kept = self._last

    def forget(self) -> None:
        self.kept = None
