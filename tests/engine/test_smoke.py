"""The demo engine is a real SGLang whose HiCache works: what was computed once is served from L1, then from L2."""

from __future__ import annotations

import pytest

from hicache_proof.demo.engine import Engine, EngineSpec
from hicache_proof.demo.releases import NEWEST, RELEASES

from .driver import ask, distance, evict, flush, prompt

pytestmark = pytest.mark.engine

IN_EVERY_TEST_RUN = ("0.5.9", "0.5.16", NEWEST)
"""The oldest (no plugin loader, HiRadixCache), one in the middle, the newest (UnifiedRadixCache in Rust)."""
SPECS = [
    EngineSpec(tree_core="python", page_size=16),
    EngineSpec(page_size=16, write_policy="write_through_selective"),
    EngineSpec(write_policy="write_back"),
    EngineSpec(tp_size=2),
]


def read_through_the_tiers(engine: Engine) -> None:
    flush(engine)
    ids = prompt("A")
    whole = (len(ids) - 1) // engine.spec.page_size * engine.spec.page_size
    cold = ask(engine, ids)
    assert cold.cached_tokens == 0
    from_l1 = ask(engine, ids)
    assert from_l1.by_tier == {"device": whole, "host": 0}
    ask(engine, ids)  # write_through_selective backs up what is asked for again
    evict(engine, "smoke")
    from_l2 = ask(engine, ids)
    assert from_l2.by_tier == {"device": 0, "host": whole}
    assert cold.tokens == from_l1.tokens == from_l2.tokens
    assert max(distance(cold, from_l1), distance(cold, from_l2)) < 1e-3


def name(spec: EngineSpec) -> str:
    return f"{spec.write_policy}-page{spec.page_size}-tp{spec.tp_size}-{spec.tree_core or 'default'}"


@pytest.mark.parametrize(
    "version",
    [pytest.param(v, marks=[] if v in IN_EVERY_TEST_RUN else [pytest.mark.matrix]) for v in RELEASES],
)
def test_a_release_serves_from_both_tiers(engines, version: str) -> None:
    read_through_the_tiers(engines(EngineSpec(version=version)))


@pytest.mark.parametrize("spec", SPECS, ids=name)
def test_each_way_to_run_it_serves_from_both_tiers(engines, spec: EngineSpec) -> None:
    read_through_the_tiers(engines(spec))


def test_without_hicache_an_evicted_prefix_is_computed_again(engines) -> None:
    engine = engines(EngineSpec(hicache=False))
    flush(engine)
    cold = ask(engine, prompt("A"))
    assert ask(engine, prompt("A")).cached_tokens == 299
    evict(engine, "smoke")
    again = ask(engine, prompt("A"))
    assert (again.cached_tokens, again.tokens) == (0, cold.tokens)


def test_an_l3_of_files_serves_what_left_the_host(engines, tmp_path) -> None:
    engine = engines(EngineSpec(page_size=16, storage=tmp_path))
    cold = ask(engine, prompt("A"))
    evict(engine, "smoke")
    assert list(tmp_path.iterdir())
    flush(engine)
    from_l3 = ask(engine, prompt("A"))
    assert from_l3.by_tier == {"device": 0, "host": 0, "storage": 288}
    assert (from_l3.tokens, distance(cold, from_l3) < 1e-3) == (cold.tokens, True)
