"""TTFT and the whole answer, series by series."""

from __future__ import annotations

from msgspec.structs import replace

from hicache_proof.report import times


def test_every_series_has_both_times_with_their_intervals(everything):
    found = {row.series: row for row in times.rows(everything)}
    assert list(found) == ["A", "B", "C", "D", "E", "control"]
    for row in found.values():
        assert " to " in row.ttft
        assert " to " in row.whole
        assert row.ttft_p95 == "under 20 requests"


def test_the_whole_answer_takes_longer_than_its_first_token(everything):
    assert all(everything.whole[name].median >= ttft.median for name, ttft in everything.ttft.items())


def test_a_report_of_an_earlier_release_has_a_dash_there(proven):
    assert {row.whole for row in times.rows(replace(proven, whole={}))} == {"\N{EN DASH}"}
