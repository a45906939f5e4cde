"""Trees that do not count what they do: their counters are missing with the reason, and never zero.

The texts of the trees for Mamba models are made from a recording of HiRadixCache by what sets them apart: they count
neither evictions nor load-backs, so their class is nowhere in the text, and the gauges of the Mamba pool move.
"""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from hicache_exporter.core.engine_report import EngineTracker
from hicache_exporter.core.engine_trees import HIMAMBA, HIRADIX, MAMBA, UNIFIED, UNNAMED, tree_of

from .samples import Numbers, info_of, metrics_of, read, reading

LOADED = ("hicache_engine_load_back_tokens", "hicache_engine_pool_load_back_slots", "hicache_engine_load_back_seconds")
EVICTED = "hicache_engine_evicted_tokens"
NAMES = ("0.5.10-cpu", "0.5.12-cpu")
MAMBA_USED = 'sglang:mamba_usage{model_name="m",moe_ep_rank="0",pp_rank="0",tp_rank="0"} '


def silent(name: str, used: float = 0.25) -> str:
    """As HiMambaRadixCache answers after a read of L2 of 299 tokens."""
    return re.sub(r"^.*cache_type=.*\n", "", metrics_of(name), flags=re.M) + f"{MAMBA_USED}{used}\n"


def before_any_hit(text: str) -> str:
    return re.sub(r"^.*cache_source=.*\n", "", text, flags=re.M)


def taken(tracker: EngineTracker, text: str, name: str = "0.5.10-cpu", tree: str | None = None):
    report = tracker.take(replace(reading(text, info_of(name)), tree=tree))
    return {value.family.name for value in report.values}, report


# -- a Mamba model with HiCache ------------------------------------------------------------------------------------
@pytest.mark.parametrize("name", NAMES)
def test_the_tree_of_mamba_models_counts_no_load_back_and_no_eviction(name):
    found = Numbers(silent(name), info_of(name))
    assert found("hicache_engine_cached_tokens", tier="host") == 299
    for family in (*LOADED, EVICTED):
        assert found.of(family) == []
    for metric in ("load_back_tokens_total", "load_back_duration_seconds", "evicted_tokens_total"):
        assert found.missing[metric] == "sglang>=0.5.13"  # a Mamba model gets no HiRadixCache


@pytest.mark.parametrize("name", NAMES)
def test_that_is_known_before_the_first_hit(name):
    found = Numbers(before_any_hit(silent(name)), info_of(name))
    assert found.of(EVICTED) == found.of("hicache_engine_load_back_tokens") == []


@pytest.mark.parametrize("name", NAMES)
def test_the_same_gauges_at_zero_are_those_of_any_other_model(name):
    found = Numbers(before_any_hit(silent(name, used=0.0)), info_of(name))
    assert found("hicache_engine_load_back_tokens") == found(EVICTED) == 0
    assert not {"load_back_tokens_total", "evicted_tokens_total"} & set(found.missing)


def test_once_seen_it_is_not_forgotten_when_the_model_is_idle():
    tracker = EngineTracker()
    taken(tracker, before_any_hit(silent("0.5.10-cpu")))
    families, report = taken(tracker, before_any_hit(silent("0.5.10-cpu", used=0.0)))
    assert not {*LOADED, EVICTED} & families
    assert report.missing["load_back_tokens_total"] == "sglang>=0.5.13"


def test_it_is_forgotten_when_another_engine_has_taken_the_place():
    tracker = EngineTracker()
    start = 'sglang:startup_time_seconds{phase="total"} '
    taken(tracker, before_any_hit(silent("0.5.10-cpu")) + start + "20.5\n")
    another = before_any_hit(silent("0.5.10-cpu", used=0.0)) + start + "21.5\n"
    taken(tracker, another)  # which release it is of is asked only now
    families, _ = taken(tracker, another)
    assert {LOADED[0], EVICTED} <= families


@pytest.mark.parametrize("name", ["0.5.14-cpu", "0.5.18-cpu"])
def test_from_0_5_13_on_a_mamba_model_has_a_tree_that_counts(name):
    found = Numbers(before_any_hit(silent(name)), info_of(name))
    assert found("hicache_engine_load_back_tokens") == found(EVICTED) == 0


# -- a Mamba model without HiCache ---------------------------------------------------------------------------------
@pytest.mark.parametrize("name", [*NAMES, "0.5.14-cpu"])
def test_without_hicache_a_mamba_models_tree_counts_no_eviction_up_to_0_5_15(name):
    text = before_any_hit(re.sub(r"^sglang:hicache.*\n", "", silent(name), flags=re.M))
    found = Numbers(text, info_of(name, enable_hierarchical_cache=False))
    assert found.of(EVICTED) == []
    assert found.missing["evicted_tokens_total"] == "sglang>=0.5.16"
    assert found.missing["load_back_tokens_total"] == "--enable-hierarchical-cache"


# -- a tree that nothing names -------------------------------------------------------------------------------------
@pytest.mark.parametrize("name", NAMES)
def test_where_l2_has_served_and_no_tree_has_counted_nothing_is_claimed(name):
    found = Numbers(silent(name, used=0.0), info_of(name))
    assert found.of(EVICTED) == found.of("hicache_engine_load_back_tokens") == []
    assert found.missing["load_back_tokens_total"] == "sglang>=0.5.13 or HiRadixCache"


def test_a_tree_that_counts_and_has_declined_what_l2_promised_has_a_true_zero():
    """Up to 0.5.19 the promise is credited as a hit: the tree has counted its evictions, and no load-back."""
    text = re.sub(r"^sglang:load_back.*\n", "", metrics_of("0.5.10-cpu"), flags=re.M)
    found = Numbers(text, info_of("0.5.10-cpu"))
    assert found("hicache_engine_cached_tokens", tier="host") == 299
    assert found("hicache_engine_load_back_tokens") == 0


@pytest.mark.parametrize("used", [0.25, 0.0])
def test_while_the_release_is_not_known_the_silent_tree_has_no_zero(used):
    found = Numbers(silent("0.5.10-cpu", used), None)
    assert found.of(EVICTED) == found.of("hicache_engine_load_back_tokens") == []
    assert found.missing["evicted_tokens_total"] == "/server_info"


# -- what tells the class ------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("text", "known", "tree"),
    [
        (metrics_of("0.5.10-cpu"), HIMAMBA, HIRADIX),  # the text itself is of this very moment
        (metrics_of("0.5.12-cpu-unified"), None, UNIFIED),
        (silent("0.5.10-cpu"), None, MAMBA),
        (silent("0.5.10-cpu"), HIMAMBA, HIMAMBA),
        (silent("0.5.10-cpu", 0.0), None, UNNAMED),
        (silent("0.5.10-cpu"), UNNAMED, MAMBA),
        (before_any_hit(silent("0.5.10-cpu", 0.0)), UNNAMED, UNNAMED),
        (before_any_hit(silent("0.5.10-cpu", 0.0)), HIRADIX, HIRADIX),
        (before_any_hit(silent("0.5.10-cpu", 0.0)), None, None),
    ],
)
def test_the_class_is_told_by_the_text_the_recorder_and_then_by_marks(text, known, tree):
    assert tree_of(read(text), known) == tree


def test_the_recorder_knows_the_tree_before_it_has_done_anything():
    families, report = taken(EngineTracker(), before_any_hit(silent("0.5.10-cpu", 0.0)), tree=HIMAMBA)
    assert not {*LOADED, EVICTED} & families
    assert report.description["tree"] == HIMAMBA


def test_by_the_recorders_word_a_tree_that_counts_has_a_true_zero_after_a_hit_without_an_eviction():
    """A prefix that L3 brought to the host: nothing has left L1 yet, and the load-back was declined."""
    families, _ = taken(EngineTracker(), silent("0.5.10-cpu", 0.0), tree=HIRADIX)
    assert {LOADED[0], EVICTED} <= families
