"""Python runs this at start-up, in the engine and in each process that it spawns, when this folder is on PYTHONPATH."""

import importlib.util
import os
import sys
from importlib.machinery import PathFinder

HERE = os.path.dirname(os.path.abspath(__file__))


def _run_the_next_one() -> None:
    """Another folder's sitecustomize, which this one hides."""
    path = [folder for folder in sys.path if os.path.abspath(folder) != HERE]
    spec = PathFinder.find_spec("sitecustomize", path)
    if spec is not None and spec.loader is not None:
        spec.loader.exec_module(importlib.util.module_from_spec(spec))


if os.environ.get("SGLANG_USE_CPU_ENGINE") == "1":
    import cpu_engine

    cpu_engine.install()

_run_the_next_one()
