"""One logical number, however many ranks there are and however the engine writes them."""

from __future__ import annotations

import pytest

from hicache_exporter.core.engine_identity import reporters
from hicache_exporter.core.ranks import RankShape, Series, logical, total

from .samples import LATEST, Numbers, info_of, labelled_by_rank, metrics_of, read, summed_over_ranks

ALIKE = {
    "one rank, old style": (lambda text: summed_over_ranks(text, 1), {"tp_size": 1}),
    "one rank, labelled": (lambda text: text, {"tp_size": 1}),
    "four ranks, summed": (lambda text: summed_over_ranks(text, 4), {"tp_size": 4}),
    "four ranks, labelled": (lambda text: labelled_by_rank(text, 4), {"tp_size": 4}),
    "eight ranks, summed": (lambda text: summed_over_ranks(text, 8), {"tp_size": 4, "pp_size": 2}),
    "three ranks, summed": (lambda text: summed_over_ranks(text, 3), {"tp_size": 3}),
}


@pytest.mark.parametrize("case", ALIKE)
def test_the_same_traffic_gives_the_same_numbers(case):
    derive, changes = ALIKE[case]
    one = Numbers(metrics_of(LATEST), info_of(LATEST))
    other = Numbers(derive(metrics_of(LATEST)), info_of(LATEST, **changes))
    assert other("hicache_engine_load_back_tokens") == 1196
    assert other("hicache_engine_backup_tokens") == 1581
    assert other("hicache_engine_load_back_bytes") == 612352
    assert other("hicache_engine_storage_backup_tokens") == 1581
    for key, values in one.everything().items():
        assert other.everything()[key] == pytest.approx(values, rel=1e-12), key


@pytest.mark.parametrize("name", ["0.5.20-cpu-tp2", "0.5.23-cpu-tp2"])
def test_real_engines_with_two_ranks(name):
    """The same requests as on one rank: 299 tokens of one prompt came back from the host, 512 bytes a token."""
    found = Numbers(metrics_of(name), info_of(name))
    assert found("hicache_engine_cached_tokens", tier="host") == 299
    assert found("hicache_engine_load_back_tokens") == 299
    assert found("hicache_engine_load_back_bytes") == 299 * 512
    backed_up = found("hicache_engine_backup_tokens")
    assert found("hicache_engine_backup_bytes") == backed_up * 512
    (duration,) = found.of("hicache_engine_load_back_seconds")
    assert duration.values[0] == 1


def test_a_summed_counter_is_withheld_while_the_number_of_ranks_is_unknown():
    found = Numbers(summed_over_ranks(metrics_of(LATEST), 4), None)
    assert found("hicache_engine_load_back_tokens") is None
    assert found.missing["load_back_tokens_total"].startswith("/server_info")
    assert found("hicache_engine_load_back_bytes") == 612352  # bytes add up over ranks anyway


def test_a_labelled_counter_needs_no_server_info():
    found = Numbers(labelled_by_rank(metrics_of(LATEST), 4), None)
    assert found("hicache_engine_load_back_tokens") == 1196


@pytest.mark.parametrize(
    ("derive", "basis", "ranks"), [(summed_over_ranks, "divided", 4), (labelled_by_rank, "one_rank", 4)]
)
def test_it_is_said_what_was_done_with_the_ranks(derive, basis, ranks):
    found = Numbers(derive(metrics_of(LATEST), 4), info_of(LATEST, tp_size=4))
    assert found.view.basis["hicache_engine_load_back_tokens", basis] == ranks
    assert found.view.basis["hicache_engine_load_back_bytes", "summed"] == ranks
    assert not any(family == "hicache_engine_cached_tokens" for family, _ in found.view.basis)  # no ranks there


def at(value, **ranks):
    return Series({name + "_rank": str(rank) for name, rank in ranks.items()}, (float(value),))


def test_data_parallel_groups_add_up_and_ranks_inside_them_do_not():
    series = [at(100, tp=0, dp=0), at(100, tp=1, dp=0), at(7, tp=2, dp=1), at(7, tp=3, dp=1)]
    assert logical(series, RankShape(tp=4, dp=2, dp_attention=True)).values == (107,)


def test_summed_data_parallel_groups_are_divided_by_the_ranks_of_one_group():
    everything = Series({"cache_type": "HiRadixCache"}, (214.0,))  # (100 + 7) twice
    assert logical([everything], RankShape(tp=4, dp=2, dp_attention=True)).values == (107,)
    assert logical([everything], RankShape(tp=2, dp=2)).values == (107,)


def test_pipeline_stages_count_the_same_tokens():
    assert logical([at(50, tp=0, pp=0), at(50, tp=0, pp=1)], RankShape(tp=1, pp=2)).values == (50,)


def test_the_rank_that_is_furthest_ahead_speaks_so_that_the_number_never_goes_back():
    before = logical([at(100, tp=0), at(120, tp=1)], RankShape(tp=2))
    after = logical([at(120, tp=0), at(120, tp=1)], RankShape(tp=2))
    assert before.values == after.values == (120,)


def test_the_tree_of_an_engine_changes_class_and_both_count():
    series = [Series({"cache_type": kind, "tp_rank": "0"}, (5.0,)) for kind in ("HiRadixCache", "UnifiedRadixCache")]
    assert logical(series, None).values == (10,)


def test_context_parallel_ranks_that_share_labels_count_once():
    shared = Series({"cache_type": "T", "tp_rank": "0", "pp_rank": "0", "dp_rank": "0"}, (200.0,))
    assert logical([shared], RankShape(tp=4, dp=2, dp_attention=True, attention_cp=2)).values == (100,)


def test_a_node_of_two_holds_half_of_the_ranks():
    shape = RankShape(tp=16, nodes=2, node=0)
    assert (shape.local_ranks, shape.ranks_per_group, shape.reporting_ranks) == (8, 8, 1)
    assert RankShape(tp=16, nodes=2, node=1).reporting_ranks == 0
    assert RankShape(tp=8, pp=2, nodes=2, node=1).reporting_ranks == 1


def test_a_summed_histogram_is_divided_into_whole_observations():
    """Two ranks, 13 and 13 load-backs; one of them was slower on one rank."""
    series = Series({"cache_type": "HiRadixCache"}, (26.0, 0.5, 0.0, 25.0, 26.0))
    assert logical([series], RankShape(tp=2)).values == (13, 0.25, 0, 12, 13)


def test_nothing_is_nothing():
    assert logical([], RankShape()) is None
    assert total([], None) is None


SENSELESS = (
    {"tp_size": 0},
    {"tp_size": -1},
    {"tp_size": None},
    {"dp_size": 0},
    {"pp_size": 0},
    {"nnodes": 3},
    {"node_rank": 5},
    {"tp_size": 4, "dp_size": 3, "enable_dp_attention": True},
)


@pytest.mark.parametrize("sizes", SENSELESS)
def test_sizes_that_make_no_sense_are_unknown_sizes(sizes):
    assert info_of(LATEST, **sizes).shape is None


# -- expected and seen ----------------------------------------------------------------------------------------------
def seen(text, **changes):
    return {r.name: (r.seen, r.expected) for r in reporters(read(text), info_of(LATEST, **changes))}


def test_by_default_one_scheduler_reports_and_every_labelled_tree():
    assert seen(labelled_by_rank(metrics_of(LATEST), 4), tp_size=4) == {"scheduler": (1, 1), "tree": (4, 4)}


def test_a_rank_that_is_gone_shows_as_a_difference():
    assert seen(labelled_by_rank(metrics_of(LATEST), 3), tp_size=4)["tree"] == (3, 4)
    assert seen(metrics_of(LATEST), tp_size=4, dp_size=2, enable_dp_attention=True)["scheduler"] == (1, 2)


def test_all_schedulers_report_when_told_to():
    assert seen(metrics_of(LATEST), tp_size=4, enable_metrics_for_all_schedulers=True)["scheduler"] == (1, 4)


def test_a_rank_that_only_writes_its_zeros_does_not_report():
    """Seen on a real engine with two ranks: the second one publishes counters that never move."""
    silent = 'sglang:prefill_effective_tokens_total{mode="input",tp_rank="1",pp_rank="0",moe_ep_rank="0"} 0.0\n'
    assert seen(metrics_of(LATEST) + silent, tp_size=2)["scheduler"] == (1, 1)


def test_before_the_first_report_nothing_is_said_of_schedulers():
    assert "scheduler" not in seen(metrics_of(LATEST).replace("sglang:num_running_reqs", "sglang:gone"))


def test_trees_without_rank_labels_are_not_counted():
    assert "tree" not in seen(summed_over_ranks(metrics_of(LATEST), 4), tp_size=4)


def test_without_server_info_nothing_is_expected():
    assert {(r.name, r.expected) for r in reporters(read(metrics_of(LATEST)), None)} == {
        ("scheduler", None),
        ("tree", None),
    }
