"""Which seams will tell something, of all that are attached: those that this engine's own cache runs through."""

from __future__ import annotations

import shutil

from hicache_tracing.guard import Seam
from hicache_tracing.records import SeamState
from hicache_tracing.told import in_use

from .engines import FAKES
from .engines import engine as running


class HiRadixCache:
    def reset(self) -> None: ...

    def writing_check(self) -> None: ...


class UnifiedRadixCache:
    def reset(self) -> None: ...


class Wrapped(HiRadixCache):
    """A cache of somebody else's that the engine made of a known one."""

    def reset(self) -> None: ...


def attached(owner: type | None, name: str) -> Seam:
    seam = Seam(f"{owner.__name__}.{name}" if owner else name, lambda _seam: None)
    seam.state, seam.owner = SeamState.ATTACHED, owner
    return seam


SEAMS = [
    attached(HiRadixCache, "reset"),
    attached(HiRadixCache, "writing_check"),
    attached(UnifiedRadixCache, "reset"),
    attached(type("PrefillAdder", (), {}), "add_one_req"),
    attached(None, "release_kv_cache"),
]
ELSEWHERE = ["PrefillAdder.add_one_req", "release_kv_cache"]


def test_of_two_trees_the_one_that_is_there():
    assert in_use(SEAMS, (UnifiedRadixCache(),)) == ["UnifiedRadixCache.reset", *ELSEWHERE]
    assert in_use(SEAMS, (HiRadixCache(),)) == ["HiRadixCache.reset", "HiRadixCache.writing_check", *ELSEWHERE]


def test_a_function_that_a_subclass_overrides_is_not_there():
    assert in_use(SEAMS, (Wrapped(),)) == ["HiRadixCache.writing_check", *ELSEWHERE]


def test_another_class_of_the_same_name_is_another_class():
    elsewhere = type("HiRadixCache", (), {"reset": lambda _self: None})
    assert in_use(SEAMS, (elsewhere(),)) == ELSEWHERE


def test_what_is_not_attached_tells_nothing():
    seam = attached(HiRadixCache, "reset")
    seam.state = SeamState.UNRECOGNISED
    assert in_use([seam], (HiRadixCache(),)) == []


def test_without_a_cache_there_are_only_the_others():
    assert in_use(SEAMS, ()) == ELSEWHERE


def test_it_is_in_the_header(engine):
    identity = engine.ring().identity
    seams = engine.ring().seams
    used = set(identity["in_use"])
    assert f"{identity['tree']}.init_load_back" in used
    assert "PrefillAdder.add_one_req" in used
    assert {seams[name][0] for name in used} == {SeamState.ATTACHED}
    unused = {name for name, (state, _, _) in seams.items() if state is SeamState.ATTACHED} - used
    assert all(name.startswith("HiCacheController.") for name in unused), "which the hybrid one overrides"


def test_a_class_that_has_got_another_name_is_found_behind_the_old_one(tmp_path):
    copy = tmp_path / "engines"
    shutil.copytree(FAKES, copy, ignore=shutil.ignore_patterns("__pycache__"))
    file = copy / "v0523/sglang/srt/mem_cache/unified_radix_cache.py"
    text = file.read_text().replace("class UnifiedRadixCache", "class PrefixCache")
    file.write_text(text + "\n\nUnifiedRadixCache = PrefixCache\n")
    with running("v0523", tmp_path / "rings", fakes=copy) as engine:
        assert engine.ring().identity["tree"] == "PrefixCache"
        assert "UnifiedRadixCache.init_load_back" in engine.ring().identity["in_use"]
