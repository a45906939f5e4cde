# ruff: noqa: ANN001, ANN002, ANN003, ANN201, ANN202, ANN204  it stands around untyped functions
"""On an engine's PYTHONPATH: counts the calls of each seam, and the time in it beyond the engine's own function.

Keeps $SEAM_METER/PID.cells: a CELL for each seam, and in the last one a switch that the benchmark sets. While it is 1,
the engine's functions are called without the seam: what the meter itself takes, there and then, is known as well.
"""

import functools
import importlib.util
import mmap
import os
import struct
import sys
from importlib.machinery import PathFinder
from time import perf_counter_ns

import hicache_tracing.guard as guard

CELL = struct.Struct("<64sQq")
ROOM = 256


class Meter:
    def __init__(self, folder):
        path = os.path.join(folder, f"{os.getpid()}.cells")
        with open(path, "w+b") as file:
            file.truncate(ROOM * CELL.size)
            self.map = mmap.mmap(file.fileno(), ROOM * CELL.size)
        self.used = 0
        self.inner = 0
        self.bare = memoryview(self.map)[-16:].cast("q")

    def cell(self, name):
        offset = self.used * CELL.size
        self.used += 1
        self.map[offset : offset + 64] = name.encode()[:64].ljust(64, b"\0")
        numbers = memoryview(self.map)[offset + 64 : offset + CELL.size].cast("q")

        def add(took):
            numbers[0] += 1
            numbers[1] += took

        return add

    def timed(self, call):
        @functools.wraps(call)
        def engine_call(*args, **kwargs):
            began = perf_counter_ns()
            try:
                return call(*args, **kwargs)
            finally:
                self.inner = perf_counter_ns() - began

        return engine_call

    def around(self, bare, wrapper, add):
        @functools.wraps(wrapper)
        def whole(*args, **kwargs):
            self.inner = 0
            began = perf_counter_ns()
            try:
                return bare(*args, **kwargs) if self.bare[0] else wrapper(*args, **kwargs)
            finally:
                add(perf_counter_ns() - began - self.inner)

        return whole


def install():
    meter, around = Meter(os.environ["SEAM_METER"]), guard.around

    def metered(call, seam, *steps):
        timed = meter.timed(call)
        return meter.around(timed, around(timed, seam, *steps), meter.cell(seam.name))

    guard.around = metered  # the plugin takes it from there when it is loaded


def run_the_next_one():
    """The sitecustomize of a later folder, which this one hides."""
    folders = [os.path.abspath(folder) for folder in sys.path]
    here = os.path.dirname(os.path.abspath(__file__))
    spec = PathFinder.find_spec("sitecustomize", folders[folders.index(here) + 1 :])
    if spec is not None and spec.loader is not None:
        spec.loader.exec_module(importlib.util.module_from_spec(spec))


install()
run_the_next_one()
