"""Which trees count what, as the sidecar believes (core/engine_trees.py), against the releases' own sources."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from hicache_exporter.core.engine_families import ROWS
from hicache_exporter.core.engine_info import release_of
from hicache_exporter.core.engine_trees import HIMAMBA, HIRADIX, MAMBA, UNIFIED
from hicache_proof.demo.environment import ensure
from hicache_proof.demo.releases import NEWEST, RELEASES

pytestmark = pytest.mark.engine

IN_EVERY_TEST_RUN = ("0.5.9", "0.5.16", NEWEST)
MODULES = {
    HIRADIX: "hiradix_cache",
    UNIFIED: "unified_radix_cache",
    HIMAMBA: "hi_mamba_radix_cache",
    MAMBA: "mamba_radix_cache",
}
COUNTS = {
    "load_back_tokens_total": "increment_load_back_num_tokens",
    "load_back_duration_seconds": "observe_load_back_duration",
    "evicted_tokens_total": "update_eviction_metrics",
}
"""What a tree calls to count it."""
HIERARCHICAL = (HIRADIX, UNIFIED, HIMAMBA)


@pytest.fixture(
    params=[pytest.param(v, marks=[] if v in IN_EVERY_TEST_RUN else [pytest.mark.matrix]) for v in RELEASES]
)
def version(request) -> str:
    return request.param


@pytest.fixture
def engine(version: str) -> Path:
    """``sglang/srt`` of the release."""
    (found,) = [path / "sglang/srt" for path in ensure(version).paths if (path / "sglang/srt").is_dir()]
    return found


def source(engine: Path, tree: str) -> str | None:
    """Of a tree's module; None: the release has no such tree that HiCache could use."""
    file = engine / "mem_cache" / f"{MODULES[tree]}.py"
    text = file.read_text() if file.exists() else None
    return text if text is None or tree == MAMBA or "load_back" in text else None


def test_a_tree_that_is_said_not_to_count_does_not_and_the_others_do(version, engine):
    release = release_of(version)
    for row in ROWS:
        if row.engine not in COUNTS:
            continue
        for tree in (*HIERARCHICAL, MAMBA) if row.engine.startswith("evicted") else HIERARCHICAL:
            text, counted_from = source(engine, tree), row.uncounted_before.get(tree, (0, 0, 0))
            if text is not None and used(engine, tree):
                assert (COUNTS[row.engine] in text) == (release >= counted_from), (row.engine, tree)


def test_the_trees_of_mamba_models_are_used_as_long_as_they_are_said_to_be(version, engine):
    assert used(engine, HIMAMBA) == ((0, 5, 10) <= release_of(version) < (0, 5, 13))
    assert used(engine, MAMBA) == (release_of(version) < (0, 5, 16))


def used(engine: Path, tree: str) -> bool:
    """Whether the release makes such a tree (newer ones make no other than UnifiedRadixCache, in many ways)."""
    files = [*(engine / "managers").glob("*.py"), *(engine / "mem_cache").glob("registry.py")]
    made = any(re.search(rf"\b{tree}\(", file.read_text()) for file in files)
    return made or (tree == UNIFIED and source(engine, UNIFIED) is not None)
