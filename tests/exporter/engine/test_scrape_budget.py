"""How long a scrape may wait, from what Prometheus says of its patience."""

from __future__ import annotations

import pytest

from hicache_exporter.core.scrape_budget import DEFAULT_SECONDS, LONGEST_SECONDS, SHORTEST_SECONDS, scrape_budget


@pytest.mark.parametrize(("header", "seconds"), [("10", 9.5), ("10.000000", 9.5), ("1", 0.9), ("0.25", 0.225)])
def test_a_margin_is_kept_for_the_answer(header, seconds):
    assert scrape_budget(header) == pytest.approx(seconds)


@pytest.mark.parametrize("header", [None, "", "soon", "nan", "inf", "-1", "0", "1e999"])
def test_what_can_not_be_used_counts_as_absent(header):
    assert scrape_budget(header) == DEFAULT_SECONDS


def test_it_is_bounded():
    assert scrape_budget("3600") == LONGEST_SECONDS
    assert scrape_budget("0.001") == SHORTEST_SECONDS
