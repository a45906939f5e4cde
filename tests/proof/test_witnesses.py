"""The second axis, content, and the witnesses that must know when to keep silent."""

from __future__ import annotations

import pytest

from hicache_proof.evidence import Evidence, Recorder
from hicache_proof.verdict import judge

from .evidences import L1_HIT, answer, but, content, counters, lookup, physical, scheduler, sibling, transfer

CONTENT = [
    ("nobody looked", but(), "not_checked"),
    ("all rows equal", but(content=content()), "intact"),
    ("all sampled rows equal", but(content=content(mode="sampled")), "intact"),
    ("one row differs", but(content=content(mismatched=1)), "damaged"),
    ("a row without a signature", but(content=content(checked=298, unseen=1)), "not_checked"),
    ("fewer rows than were read", but(content=content(checked=200)), "not_checked"),
    ("size of the read unknown", but(content=content(), transfers=None, attribution=None), "not_checked"),
    ("rows damaged on another rank", but(content=content(), ranks=(sibling(mismatched=4),)), "damaged"),
    ("rows equal, markers lost", but(content=content(), answer=answer(recalled=0)), "damaged"),
    ("log-probabilities off", but(answer=answer(delta=1.34)), "damaged"),
    ("log-probabilities not a number", but(answer=answer(delta=float("nan"))), "damaged"),
    ("other text within tolerance is no damage", but(content=content(), answer=answer(same=False)), "intact"),
    ("the answer alone does not check the rows", but(answer=answer()), "not_checked"),
    (
        "damage is told even where the verdict is void",
        but(content=content(mismatched=1), recorder=Recorder(watching=True, lost_records=1)),
        "damaged",
    ),
]


@pytest.mark.parametrize(("evidence", "state"), [row[1:] for row in CONTENT], ids=[row[0] for row in CONTENT])
def test_content(evidence: Evidence, state: str) -> None:
    assert judge(evidence).content == state


def test_damaged_content_leaves_the_tier_proven_and_corroborates_nothing() -> None:
    judged = judge(but(content=content(mismatched=299)))
    assert (judged.verdict, judged.content) == ("proven", "damaged")


def test_unseen_rows_are_told() -> None:
    assert "content: 298 rows compared, 1 without a signature" in judge(but(content=content(298, unseen=1))).reasons


NO_USE = [
    ("the collector says so", physical(usable=False, why_not="MIG is on"), "MIG is on"),
    ("the counter stands still", physical(bus=0), "does not count"),
    ("too small against the baseline", physical(claimed=512), "don't stand out"),
    ("more traffic than the claim explains", physical(bus=900_000), "other traffic"),
]


@pytest.mark.parametrize(("bus", "why"), [row[1:] for row in NO_USE], ids=[row[0] for row in NO_USE])
def test_bus_counters_are_not_used_where_they_can_not_speak(bus: object, why: str) -> None:
    judged = judge(but(physical=bus))
    state = next(state for state in judged.witnesses if state.name == "physical")
    assert (judged.verdict, state.stance) == ("proven", "silent")
    assert why in state.says


def test_counters_of_a_shared_window_are_silent() -> None:
    judged = judge(but(counters=counters(load_back=5000, exclusive=False)))
    assert judged.verdict == "proven"
    assert next(state.stance for state in judged.witnesses if state.name == "counters") == "silent"


def test_a_stepped_clock_silences_what_was_measured_over_a_window() -> None:
    stepped = Recorder(watching=True, lost_records=0, clock_stepped=True)
    judged = judge(but(recorder=stepped, counters=counters(load_back=0), physical=physical(bus=40_000)))
    assert judged.verdict == "proven"
    assert {s.name for s in judged.witnesses if s.stance == "silent"} == {"counters", "physical"}


def test_absent_null_and_zero_are_three_different_things() -> None:
    def says(attribution: object) -> str:
        states = judge(but(L1_HIT, attribution=attribution)).witnesses
        return next(state.stance for state in states if state.name == "attribution")

    assert says(None) == "absent"
    assert says(scheduler(device=None, host=None)) == "silent"
    assert says(scheduler(host=0)) == "contradicts"


def test_a_witness_that_a_conflict_names_is_never_shown_as_supporting_together_with_its_opponent() -> None:
    judged = judge(but(transfers=(transfer(100),)))
    stances = {state.name: state.stance for state in judged.witnesses}
    assert stances["attribution"] == "supports"
    assert stances["transfer"] == "contradicts"


def test_an_l3_promise_without_an_l3_figure_leaves_the_tier_unknown() -> None:
    assert judge(but(lookup=lookup(storage=100))).served_by == "unknown"
