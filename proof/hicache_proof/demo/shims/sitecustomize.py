"""Python runs this at start-up, in the engine and in each process that it spawns, when this folder is on PYTHONPATH."""

import importlib.util
import os
import sys
from importlib.machinery import PathFinder

import cpu_engine


def _run_the_next_one():
    """The sitecustomize of a later folder, which this one hides."""
    folders = [os.path.abspath(folder) for folder in sys.path]
    here = os.path.dirname(os.path.abspath(__file__))
    spec = PathFinder.find_spec("sitecustomize", folders[folders.index(here) + 1 :])
    if spec is not None and spec.loader is not None:
        spec.loader.exec_module(importlib.util.module_from_spec(spec))


if os.environ.get("SGLANG_USE_CPU_ENGINE") == "1":
    cpu_engine.install()
_run_the_next_one()
