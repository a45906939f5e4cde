"""The switch of the overhead benchmark: out is what the engine has without us, by identity, in is ours again."""

import sys
from pathlib import Path
from types import ModuleType

import pytest

from hicache_tracing import plugin
from hicache_tracing.config import Settings
from hicache_tracing.patching import Patch
from hicache_tracing.records import RUN
from hicache_tracing.session import Session

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


def test_what_was_known_before_it_was_out_is_forgotten(
    module: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = Session(Settings(folder=str(tmp_path), capacity=1024))
    session.host_copies.remember(7, 100, runs := (1, 1, RUN.pack(0, 100)))
    session.first_tokens.admitted(b"request")
    session.first_tokens.seen(b"request")
    monkeypatch.setattr(plugin, "_session", session)
    seam_switch.switch(tmp_path / "1", seams=False)
    assert (session.host_copies.of(7, 100), session.first_tokens.gate.open) == (runs, False)
    seam_switch.switch(tmp_path / "1", seams=True)
    assert (session.host_copies.of(7, 100), session.first_tokens.gate.open) == (None, True)
