"""An engine of tomorrow: what is not as known is left alone and reported, the rest is recorded, the server runs."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import NamedTuple

import pytest

from hicache_tracing import plugin
from hicache_tracing.config import Settings
from hicache_tracing.records import Kind, SeamState
from hicache_tracing.told import PROOF

from . import workload
from .engines import FAKES, SCHEDULER, importable, launch
from .engines import engine as running

PROMPT = list(range(300))
TREE = "mem_cache/unified_radix_cache.py"
OLD_TREE = "mem_cache/hiradix_cache.py"
CONTROLLER = "mem_cache/hybrid_cache/hybrid_cache_controller.py"


class Change(NamedTuple):
    """One edit of an engine, and what becomes of the seam it touches."""

    release: str
    path: str
    old: str
    new: str
    seam: str
    state: SeamState
    runs: bool = True
    """Whether the edited engine still works: a renamed method that others call does not."""


CHANGES = {
    "another parameter in front": Change(
        "v0523",
        "managers/schedule_policy.py",
        "def add_one_req(self, req,",
        "def add_one_req(self, lane, req,",
        "PrefillAdder.add_one_req",
        SeamState.UNRECOGNISED,
        runs=False,
    ),
    "another parameter behind": Change(
        "v0523",
        "managers/schedule_policy.py",
        "truncation_align_size: int | None)",
        "truncation_align_size: int | None, lane=0)",
        "PrefillAdder.add_one_req",
        SeamState.ATTACHED,
    ),
    "a parameter renamed": Change(
        "v0523",
        TREE,
        "def init_load_back(self, params: InitLoadBackParams):",
        "def init_load_back(self, wish: InitLoadBackParams):\n        params = wish",
        "UnifiedRadixCache.init_load_back",
        SeamState.UNRECOGNISED,
    ),
    "keyword-only now": Change(
        "v059",
        OLD_TREE,
        "def init_load_back(self, last_node, host_hit_length, mem_quota=None):",
        "def init_load_back(self, *arguments):\n        last_node, host_hit_length, mem_quota = arguments",
        "HiRadixCache.init_load_back",
        SeamState.UNRECOGNISED,
    ),
    "renamed": Change(
        "v0523", TREE, "_evict_device_leaf", "_drop_leaf", "UnifiedRadixCache._evict_device_leaf", SeamState.MISSING
    ),
    "deleted": Change(
        "v0523",
        TREE,
        "    def revoke_pending_prefetch",
        "    def _not_any_more",
        "UnifiedRadixCache.revoke_pending_prefetch",
        SeamState.MISSING,
    ),
    "renamed, and its older relative would not tell all": Change(
        "v0523",
        TREE,
        "_handle_prefetch_result",
        "_settle_prefetch",
        "UnifiedRadixCache.check_prefetch_progress",
        SeamState.UNRECOGNISED,
    ),
    "a static method now": Change(
        "v0523",
        "managers/cache_controller.py",
        "    def evict_host(self, host_indices",
        "    @staticmethod\n    def evict_host(self, host_indices",
        "HiCacheController.evict_host",
        SeamState.UNRECOGNISED,
    ),
    "a property now": Change(
        "v0523",
        CONTROLLER,
        "    def write_storage(self, host_indices",
        "    @property\n    def write_storage(self, host_indices",
        "HybridCacheController.write_storage",
        SeamState.UNRECOGNISED,
    ),
    "a coroutine now": Change(
        "v0523",
        TREE,
        "    def attach_storage_backend(self",
        "    async def attach_storage_backend(self",
        "UnifiedRadixCache.attach_storage_backend",
        SeamState.UNRECOGNISED,
    ),
    "a generator now": Change(
        "v0523",
        TREE,
        'self.enable_storage = False\n        return True, "detached"',
        'self.enable_storage = False\n        yield True, "detached"',
        "UnifiedRadixCache.detach_storage_backend",
        SeamState.UNRECOGNISED,
    ),
    "the class renamed": Change(
        "v0523",
        "managers/schedule_policy.py",
        "class PrefillAdder",
        "class Adder",
        "PrefillAdder.add_one_req",
        SeamState.MISSING,
        runs=False,
    ),
    "the class is a function now": Change(
        "v0523",
        "managers/schedule_policy.py",
        "class PrefillAdder:",
        "def PrefillAdder(*arguments):\n    return Adder(*arguments)\n\n\nclass Adder:",
        "PrefillAdder.add_one_req",
        SeamState.MISSING,
    ),
    "inherited now": Change(
        "v0523",
        CONTROLLER,
        "    def write(self",
        "    def former_write(self",
        "HybridCacheController.write",
        SeamState.MISSING,
        runs=False,
    ),
    "a function renamed": Change(
        "v059",
        "mem_cache/common.py",
        "def release_kv_cache(req, tree_cache",
        "release_kv_cache = lambda *a, **k: give_back(*a, **k)\n\n\ndef give_back(req, tree_cache",
        "release_kv_cache",
        SeamState.UNRECOGNISED,
    ),
}


def changed(change: Change, folder: Path) -> Path:
    """A copy of the fake engines with one edit."""
    copy = folder / "engines"
    shutil.copytree(FAKES, copy, ignore=shutil.ignore_patterns("__pycache__"))
    file = copy / change.release / "sglang" / "srt" / change.path
    text = file.read_text()
    assert change.old in text
    file.write_text(text.replace(change.old, change.new))
    return copy


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES.keys())
def test_a_seam_that_is_not_as_known(tmp_path, change, caplog):
    fakes = changed(change, tmp_path)
    if not change.runs:
        assert state_after_import(change, fakes, tmp_path) is change.state
        return
    with running(change.release, tmp_path, fakes=fakes) as engine:
        engine.serve("first", PROMPT)
        engine.scheduler.evict(300)
        engine.serve("again", [*PROMPT, 7])
        assert engine.ring().seams[change.seam][0] is change.state
        assert engine.ring().of(Kind.ADMIT), "the others still record"
        assert [faults for _, _, faults in engine.ring().seams.values() if faults] == []
    said = [record.getMessage() for record in caplog.records]
    assert len([line for line in said if change.seam in line]) == (change.state is SeamState.UNRECOGNISED)
    function = change.seam.rpartition(".")[2]
    lost = change.state is not SeamState.ATTACHED and (function,) in PROOF
    line = f"hicache-witness: nothing can be proven here, not recorded: {function}"
    assert [one for one in said if "proven" in one] == [line] * lost


def state_after_import(change: Change, fakes: Path, folder: Path) -> SeamState:
    with importable(change.release, fakes):
        session = plugin.start(Settings(folder=str(folder)))
        try:
            __import__(SCHEDULER.replace("managers.scheduler", "managers.schedule_policy"))
            __import__("sglang.srt.mem_cache.hybrid_cache.hybrid_cache_controller")
            return next(seam.state for seam in session.seams if seam.name == change.seam)
        finally:
            plugin.stop()


@pytest.mark.parametrize("release", ["v0523", "v059"])
def test_an_unrecognised_function_is_the_original_object(tmp_path, release):
    with importable(release):
        reference = vars(type(launch(release, None).scheduler.tree_cache))["init_load_back"].__code__
    with running(release, tmp_path, {"seams_off": frozenset({_load_back(release)})}) as engine:
        function = vars(type(engine.tree))["init_load_back"]
        assert not hasattr(function, "__wrapped__")
        assert function.__code__ == reference


def test_every_seam_of_the_newest_release_is_used_or_reported(tmp_path):
    """A seam that silently records nothing would be a hole in the evidence."""
    with running("v0523", tmp_path) as engine:
        workload.run(engine)
        states = engine.ring().seams
        assert {state for state, _, _ in states.values()} == {
            SeamState.ATTACHED,
            SeamState.MISSING,
            SeamState.PENDING,
        }
        pending = {name.partition(".")[0] for name, (state, _, _) in states.items() if state is SeamState.PENDING}
        assert not pending & {"UnifiedRadixCache", "HybridCacheController", "HiCacheController", "Scheduler"}
        silent = {name for name, (state, fired, _) in states.items() if state is SeamState.ATTACHED and not fired}
        assert silent == {
            # the tree's controller is the hybrid one, which has its own
            "HiCacheController.load",
            "HiCacheController.write",
            "HiCacheController.write_storage",
            # the unified tree frees host slots by itself
            "HiCacheController.evict_host",
        }


def test_names_of_seams_are_unique_and_fit_the_table():
    from hicache_tracing.records import SEAMS_ROOM
    from hicache_tracing.seams import ALL

    names = [target.seam for target in ALL]
    assert len(names) == len(set(names)) <= SEAMS_ROOM


def test_a_name_in_seams_off_that_is_no_seam_is_said(tmp_path, caplog):
    with running("v0523", tmp_path, {"seams_off": frozenset({"PrefillAdder.add_one_request"})}):
        assert [record.getMessage() for record in caplog.records] == [
            "hicache-witness: HICACHE_WITNESS_SEAMS_OFF names what is no seam: PrefillAdder.add_one_request"
        ]


def _load_back(release: str) -> str:
    return {"v0523": "UnifiedRadixCache.init_load_back", "v059": "HiRadixCache.init_load_back"}[release]
