"""Off is the engine without us; ``launch`` puts us into any release."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

from hicache_proof.demo.engine import Engine, EngineSpec
from hicache_proof.demo.environment import ensure
from hicache_proof.demo.plugin_path import make_plugin_paths
from hicache_proof.demo.spec import SHIMS
from hicache_tracing.seams import ALL

from ..tracing.ring import read
from .driver import ask, prompt

pytestmark = pytest.mark.engine

LOOK = """
import importlib, json, sys
from sglang.srt.plugins import load_plugins
load_plugins()
modules = json.loads(sys.argv[1])
found = {}
for module, owner, name in modules:
    try:
        holder = importlib.import_module(module)
    except ImportError:
        continue
    holder = getattr(holder, owner, None) if owner else holder
    function = vars(holder).get(name) if holder is not None else None
    if function is not None:
        found[f"{owner}.{name}"] = function.__code__.co_filename
print(json.dumps({"functions": found, "ours": sorted(m for m in sys.modules if m.startswith("hicache_tracing"))}))
"""


def patched(tmp_path: Path, **switch: str) -> tuple[dict[str, str], list[str]]:
    """(file that each seam's function is defined in, modules of ours that were imported)"""
    environment = ensure()
    paths = (SHIMS, *environment.paths, *make_plugin_paths(tmp_path, plugin_loader=True))
    variables = {name: value for name, value in os.environ.items() if not name.startswith(("HICACHE_", "PYTHON"))}
    variables |= {"PYTHONPATH": os.pathsep.join(map(str, paths)), "SGLANG_USE_CPU_ENGINE": "1", **switch}
    targets = json.dumps([(target.module, target.owner, target.name) for target in ALL])
    result = subprocess.run(
        [environment.python, "-c", LOOK, targets],
        env=variables,
        capture_output=True,
        text=True,
        timeout=240,
        check=True,
    )
    said = json.loads(result.stdout.splitlines()[-1])
    return said["functions"], said["ours"]


def test_unset_not_one_function_of_the_engine_is_another(tmp_path: Path) -> None:
    functions, ours = patched(tmp_path)
    assert len(functions) > 20
    assert not [name for name, file in functions.items() if "hicache_tracing" in file]
    assert ours == ["hicache_tracing"], "nothing but the entry point is imported"


def test_set_they_are(tmp_path: Path) -> None:
    functions, _ = patched(tmp_path, HICACHE_WITNESS="1", HICACHE_WITNESS_DIR=str(tmp_path / "rings"))
    wrapped = [name for name, file in functions.items() if "hicache_tracing" in file]
    assert "UnifiedRadixCache.init_load_back" in wrapped
    assert not (tmp_path / "rings").exists(), "no ring before a scheduler starts"


@pytest.mark.parametrize("version", ["0.5.23"])
def test_launch_attaches_without_the_plugin_loader(tmp_path: Path, version: str) -> None:
    """The plugin loader is told to load nothing of ours; launch's folder on the path does it."""
    site = Path(__import__("hicache_tracing").__file__).parent / "launch_site"
    spec = EngineSpec(version=version, variables={"SGLANG_PLUGINS": "none-of-ours"}, paths=(site,))
    with Engine(spec, tmp_path) as engine:
        answer = ask(engine, prompt("launched"), tokens=2)
        (path,) = engine.rings.glob("*.ring")
        assert answer.request_id in {record.rid for record in read(path).records}
