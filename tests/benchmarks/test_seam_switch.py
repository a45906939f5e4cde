"""The switch of the overhead benchmark: out is what the engine has without us, by identity, in is ours again."""

import sys
from pathlib import Path
from types import ModuleType

import pytest

from hicache_tracing import plugin
from hicache_tracing.patching import Patch

sys.path.append(str(Path(__file__).parents[2] / "benchmarks" / "seam_switch"))

import seam_switch


class Tree:
    def match(self) -> str:
        return "engine"


def _wrap(call):
    return lambda *args: call(*args)


@pytest.fixture
def module(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    defined, importer = ModuleType("sglang.defined"), ModuleType("sglang.importer")
    defined.hashed = lambda: "engine"
    monkeypatch.setitem(sys.modules, defined.__name__, defined)
    monkeypatch.setitem(sys.modules, importer.__name__, importer)
    patches = [Patch(Tree, "match", _wrap), Patch(defined, "hashed", _wrap)]
    for patch in patches:
        patch.apply()
    importer.hashed = defined.hashed  # imported by name while it was ours
    monkeypatch.setattr(plugin, "_patches", patches)
    yield importer
    for patch in patches:
        patch.revert()


def test_out_is_the_engines_own_functions_everywhere(module: ModuleType, tmp_path: Path) -> None:
    at = tmp_path / "1"
    seam_switch.switch(at, seams=False)
    tree, function = plugin._patches
    assert vars(Tree)["match"] is tree.original
    assert module.hashed is sys.modules["sglang.defined"].hashed is function.original
    assert at.read_text() == "out"


def test_in_is_ours_everywhere(module: ModuleType, tmp_path: Path) -> None:
    at = tmp_path / "1"
    seam_switch.switch(at, seams=False)
    seam_switch.switch(at, seams=True)
    tree, function = plugin._patches
    assert vars(Tree)["match"] is tree.wrapper
    assert module.hashed is sys.modules["sglang.defined"].hashed is function.wrapper
    assert at.read_text() == "in"
