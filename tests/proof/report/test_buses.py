"""Bytes claimed and bytes over the bus, rank by rank, where a read was on several ranks."""

from __future__ import annotations

import io

import pytest
from msgspec.structs import replace
from rich.console import Console

from hicache_proof.report import buses, console, html, markdown
from hicache_proof.report.view import DASH
from hicache_proof.verdict import judge

from ..evidences import physical, sibling

UNUSABLE = physical(usable=False, why_not="a counter may have wrapped unseen")


def with_ranks(run, own, *siblings):
    """The run with these figures of the bus on each of its ranks, in every read of L2."""
    requests = []
    for one in run.requests:
        if one.series == "C":
            known = {"host": one.evidence.attribution.host_tokens, "loaded": one.evidence.transfers[0].request_tokens}
            views = tuple(sibling(**known, rank=f"tp{rank}", physical=seen) for rank, seen in enumerate(siblings, 1))
            told = replace(one.evidence, physical=own, ranks=views)
            one = replace(one, evidence=told, judgement=judge(told))
        requests.append(one)
    return replace(run, requests=tuple(requests))


@pytest.fixture
def on_two_gpus(proven):
    return with_ranks(proven, physical(), physical(bus=166_000))


def on_a_terminal(run):
    out = io.StringIO()
    console.print_run(run, Console(file=out, width=200))
    return out.getvalue()


def test_each_read_has_a_row_for_each_rank_with_bytes_and_ratio(on_two_gpus):
    found = buses.rows(on_two_gpus.of("C"))
    assert [(row.read, row.rank, row.claimed, row.crossed, row.ratio, row.says) for row in found] == [
        ("C 1", "tp0", "153,088", "177,400", "1.16", "supports"),
        ("C 1", "tp1", "153,088", "165,400", "1.08", "supports"),
        ("C 2", "tp0", "153,088", "177,400", "1.16", "supports"),
        ("C 2", "tp1", "153,088", "165,400", "1.08", "supports"),
    ]


def test_what_nobody_measured_and_what_can_not_be_used_are_told_apart(proven):
    found = buses.rows(with_ranks(proven, physical(), None, UNUSABLE).of("C"))
    assert [row[1:] for row in found[1:3]] == [
        ("tp1", DASH, DASH, DASH, "not measured"),
        ("tp2", "153,088", DASH, DASH, "not usable here: a counter may have wrapped unseen"),
    ]


def test_one_rank_or_no_bus_at_all_needs_no_table(proven):
    for run in (proven, with_ranks(proven, physical()), with_ranks(proven, None, None)):
        assert buses.rows(run.of("C")) == ()
        for text in (html.render(run), markdown.render(run), on_a_terminal(run)):
            assert "rank by rank" not in text
            assert "bytes over the bus" not in text


@pytest.mark.parametrize("report", [html.render, markdown.render, on_a_terminal])
def test_every_report_shows_the_bytes_and_the_ratio_of_each_rank(on_two_gpus, report):
    text = report(on_two_gpus)
    for figure in ("bytes over the bus", "tp0", "tp1", "153,088", "177,400", "165,400", "1.16", "1.08"):
        assert figure in text
    assert "on every rank: tp1 ratio 1.08" in text


@pytest.mark.parametrize("report", [html.render, markdown.render, on_a_terminal])
def test_every_report_names_the_rank_whose_bytes_are_missing(proven, report):
    text = report(with_ranks(proven, physical(), physical(bus=89_000)))
    assert "rank tp1: 88400 bytes crossed the bus for 153088 claimed (ratio 0.58)" in text
    assert "0.58" in text
