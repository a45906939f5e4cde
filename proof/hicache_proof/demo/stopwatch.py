"""Where the time goes: a line on stderr when a stage begins, and all of them at the end."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

from hicache_proof.demo.store import Say


class Stopwatch:
    def __init__(self, say: Say) -> None:
        self._say = say
        self._began = time.monotonic()
        self._stages: list[tuple[str, float]] = []

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        self._say(f"[{time.monotonic() - self._began:5.1f} s] {name} ...")
        began = time.monotonic()
        try:
            yield
        finally:
            self._stages.append((name, time.monotonic() - began))

    def summary(self) -> str:
        spent = ", ".join(f"{name} {seconds:.1f} s" for name, seconds in self._stages)
        return f"time: {spent}; {time.monotonic() - self._began:.1f} s in all"
