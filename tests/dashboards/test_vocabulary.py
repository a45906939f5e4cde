"""The two vocabularies of PromQL: rules keep the labels of the target, boards add up what the variables select."""

from __future__ import annotations

import promql_parser
import pytest

from hicache_dashboards import promql
from hicache_dashboards.queries import vocabulary as boards
from hicache_dashboards.rules import expressions as rules
from hicache_exporter import names


@pytest.mark.parametrize(
    ("family", "part", "sample"),
    [
        (names.HIT_TOKENS, "", "hicache_hit_tokens_total"),
        (names.ENGINE_UP, "", "hicache_engine_up"),
        (names.ENGINE_INFO, "", "hicache_engine_info"),
        (names.TTFT, "bucket", "hicache_ttft_seconds_bucket"),
    ],
)
def test_samples_are_named_as_prometheus_stores_them(family: names.Family, part: str, sample: str) -> None:
    assert promql.sample(family, part) == sample


def test_a_matcher_may_bring_its_operator() -> None:
    matchers = {"tier": "host", "cause": "!=dropped", "reason": "=~a|b"}
    assert promql.select(names.HIT_TOKENS, matchers) == (
        'hicache_hit_tokens_total{tier="host",cause!="dropped",reason=~"a|b"}'
    )


def test_a_rule_drops_what_the_family_adds_and_nothing_of_the_target() -> None:
    assert rules.rate(names.HIT_TOKENS, "5m") == "sum without (tier) (rate(hicache_hit_tokens_total[5m]))"
    assert rules.rate(names.HIT_TOKENS, "5m", ("tier",)) == "rate(hicache_hit_tokens_total[5m])"
    assert rules.level(names.RANK_L2) == "sum without (rank) (hicache_rank_l2_configured_bytes)"


def test_a_rule_over_buckets_keeps_their_bounds_if_it_is_told_to() -> None:
    assert rules.rate(names.TTFT, "5m", ("le",), part="bucket") == (
        "sum without (tier) (rate(hicache_ttft_seconds_bucket[5m]))"
    )


def test_a_board_selects_by_its_variables_as_far_as_the_family_has_them() -> None:
    assert boards.selection(names.HIT_TOKENS) == 'job=~"$job",instance=~"$instance",engine=~"$engine"'
    assert boards.selection(names.HOST_MEMORY) == 'job=~"$job",instance=~"$instance"'
    assert boards.selection(names.RECORDER_UP).endswith(',engine=~"$engine",rank=~"$rank"')


def test_a_mixed_fleet_is_counted_engine_by_engine() -> None:
    assert boards.add(boards.first_of("a", "b"), "tier") == "sum by (tier) (a or on (job, instance, engine) b)"


def test_a_share_of_nothing_has_no_sample_and_a_tile_of_nothing_is_nan() -> None:
    assert boards.share("a", "b") == "a / (b > 0)"
    assert boards.share_now("a", "b") == "a / b"


def test_an_event_counts_once_however_it_became_visible() -> None:
    expr = rules.occurred(names.CONTENT_TOTAL, "15m", "1h", matchers={"content": "damaged"})
    promql_parser.parse(expr)
    assert expr.count('hicache_content_checks_total{content="damaged"}') == 5
