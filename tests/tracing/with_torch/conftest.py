"""These run in the engine's Python, which has torch and not our development tools: see ``test_with_torch.py``."""

from __future__ import annotations

from importlib.util import find_spec

if find_spec("torch") is None:
    collect_ignore_glob = ["test_*.py"]
