"""The second axis, content, and the witnesses that must know when to keep silent."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from hicache_proof.evidence import Evidence, Recorder, Writer
from hicache_proof.verdict import judge
from hicache_proof.witnesses import WITNESSES

from .evidences import (
    L1_HIT,
    RECORDER_OFF,
    RETRIED,
    answer,
    but,
    content,
    control,
    counters,
    load_back,
    lookup,
    physical,
    provenance,
    reply,
    residency,
    scheduler,
    sibling,
    transfer,
)  # fmt: skip


def written_by(requests: str) -> tuple[Writer, ...]:
    return tuple(Writer(request_id=name, operation_id=1, tokens=50, written_at_ns=500) for name in requests)


CONTENT = [
    ("nobody looked", but(), "not_checked"),
    ("all rows equal", but(content=content()), "intact"),
    ("all sampled rows equal", but(content=content(mode="sampled")), "intact"),
    ("one row differs", but(content=content(mismatched=1)), "damaged"),
    ("a row without a signature", but(content=content(checked=298, unseen=1)), "not_checked"),
    ("fewer rows than were read", but(content=content(checked=200)), "not_checked"),
    ("size of the read unknown", but(content=content(), transfers=None, attribution=None), "not_checked"),
    ("rows without a signature on another rank", but(content=content(), ranks=(sibling(unseen=4),)), "not_checked"),
    ("all rows equal on another rank too", but(content=content(), ranks=(sibling(mismatched=0, unseen=0),)), "intact"),
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


FACTS = {name: "transfers" if name == "transfer" else name for name in WITNESSES}

OF_ITS_OWN_FACTS = [
    ("load_back", load_back(evicted_tokens=64), "supports", "after evicting 64 from L1"),
    ("load_back", load_back(299, promised=298), "supports", "the 298 promised tokens and 1 more, which had left L1"),
    ("load_back", load_back(0, "no_room"), "contradicts", "declined 299 promised tokens: no room in L1"),
    ("load_back", load_back(0, "below_threshold", threshold=10), "contradicts", "threshold of 10 tokens"),
    ("load_back", load_back(0, "over_quota", quota=64, threshold=10), "contradicts", "quota of 64 tokens"),
    ("load_back", load_back(0, "over_quota", quota=64), "contradicts", "quota of 64 tokens"),
    ("load_back", load_back(0, "over_quota"), "contradicts", "quota of this prefill"),
    ("load_back", load_back(0, "loaded"), "contradicts", "state of another kind was loaded, and no KV"),
    ("load_back", load_back(0, "new"), "contradicts", "outcome 'new'"),
    ("residency", residency(node_seen_leaving=None), "silent", "450 tokens left L1 afterwards"),
    ("residency", residency(node_seen_leaving=None), "silent", "which blocks left is not known"),
    ("residency", residency(node_seen_leaving=False), "silent", "which blocks left is not known"),
    ("residency", residency(node_seen_leaving=None, left_device_tokens=None), "silent", "not observable"),
    ("residency", residency(node_seen_leaving=None, left_device_tokens=None), "silent", "not observed"),
    ("residency", residency(unfinished_backup_tokens=9), "silent", "9 more tokens was never seen finished"),
    ("residency", residency(backed_up_tokens=9), "silent", "299 were read"),
    (
        "residency",
        residency(left_device_tokens=0, node_seen_leaving=False, returned_since=True),
        "silent",
        "L1 may still have held them",
    ),
    (
        "residency",
        residency(backed_up_tokens=0, left_device_tokens=0, node_seen_leaving=False),
        "silent",
        "written by nothing the recorder saw",
    ),
    ("residency", residency(left_device_tokens=0, node_seen_leaving=False), "contradicts", "never seen"),
    ("provenance", provenance(0), "silent", "no known backup wrote any of them"),
    ("provenance", provenance(100), "silent", "199 were written by no backup that was seen"),
    ("provenance", provenance(100, 100), "silent", "not all slots of the read were recorded"),
    ("provenance", replace(provenance(), writers=()), "supports", "by backups that the recorder saw"),
    ("provenance", replace(provenance(), writers=written_by("abc")), "supports", "request a, b, c"),
    ("provenance", replace(provenance(), writers=written_by("abcde")), "supports", "and 2 more"),
    ("transfer", (transfer(device_seconds=0.0125),), "supports", "12.50 ms on the device clock"),
    ("transfer", (transfer(200, device_seconds=0.01), transfer(99)), "supports", "2 transfer(s), finished"),
    ("transfer", (transfer(requests=3),), "supports", "shared with 2 other request(s)"),
    ("transfer", (transfer(), transfer(0)), "supports", "in 1 transfer(s)"),
    ("transfer", (transfer(finished=None),), "silent", "not seen finished yet"),
    ("transfer", (transfer(finished=False),), "silent", "dropped by a reset"),
    ("attribution", scheduler(storage=None), "supports", "L2 299"),
    ("reply", reply(None, None, None, cached_tokens=9), "silent", "no split by tier of its 9 cached tokens"),
    ("counters", counters(), "supports", "load-back 299, cached from host 299 tokens"),
    ("counters", counters(None), "silent", "no load-back counter on this engine"),
    ("physical", physical(bus=98_600, claimed=100_000), "supports", "ratio 0.98"),
    ("physical", physical(bus=98_599, claimed=100_000), "contradicts", "ratio 0.98"),
    ("physical", physical(bus=135_600, claimed=100_000), "supports", "ratio 1.35"),
    ("physical", physical(bus=135_601, claimed=100_000), "silent", "other traffic"),
    ("physical", physical(), "supports", "177400 bytes crossed the bus for 153088 claimed (ratio 1.16)"),
    ("content", content(), "supports", "299 of 299 checked rows equal (full, 2 layers)"),
    ("content", content(mismatched=9), "silent", "290 of 299 checked rows equal (full, 2 layers): 9 damaged"),
    ("content", content(unseen=9), "silent", "9 loaded rows had no signature"),
    ("content", content(200), "silent", "not the whole read"),
    ("answer", answer(), "supports", "5 of 5 markers recalled"),
    ("answer", answer(planted=0, recalled=0), "supports", "tolerance 0.001"),
    ("answer", replace(answer(planted=0, recalled=0), tolerance=1.5), "silent", "so wide that damage would pass"),
    ("answer", replace(answer(), tolerance=1.5), "supports", "5 of 5 markers recalled"),
    ("answer", answer(recalled=4), "silent", "not the L1 answer"),
    ("control", control(), "supports", "control (HiCache off) shows no L2 read"),
    ("control", control(None, None, 0, "forced_miss"), "supports", "control (forced miss)"),
    ("control", control(host=7), "contradicts", "shows an L2 read as well: host 7, load-back 0 tokens"),
    ("control", control(None, None, 299), "silent", "no figure to compare"),
    ("control", control(None, 0, 299), "supports", "no L2 read"),
    ("ranks", (sibling(),), "supports", "1 sibling rank(s) tell the same: rank tp1 attributed 299"),
    ("ranks", (sibling(None, None),), "silent", "none of them tells of an L2 read"),
    ("ranks", (sibling(None, 299),), "supports", "rank tp1 attributed unknown and loaded 299 L2 tokens"),
    ("ranks", (sibling(299, 100),), "contradicts", "loaded 100"),
    ("ranks", (sibling(0, 299),), "contradicts", "attributed 0"),
]


@pytest.mark.parametrize(("name", "fact", "stance", "words"), OF_ITS_OWN_FACTS)
def test_what_each_witness_says_of_its_own_facts(name: str, fact: object, stance: str, words: str) -> None:
    state = WITNESSES[name](but(**{FACTS[name]: fact}))
    assert (state.name, state.stance) == (name, stance)
    assert words in state.says


OF_OTHER_FACTS_TOO = [
    ("lookup", but(), "supports", "matched 0 tokens in L1 and 299 in L2 of 300"),
    ("lookup", L1_HIT, "contradicts", "matched 299 tokens in L1 and 0 in L2 of 300"),
    ("lookup", but(L1_HIT, recorder=RETRIED), "silent", "admission was retried"),
    ("lookup", but(recorder=RETRIED), "supports", "299 in L2"),
    ("load_back", but(), "supports", "loaded 299 of 299 promised tokens"),
    ("load_back", but(load_back=load_back(0, "no_room"), recorder=RETRIED), "silent", "an earlier one may have"),
    ("residency", but(), "supports", "299 tokens backed up, then seen leaving L1, not loaded back since"),
    (
        "residency",
        but(attribution=scheduler(host=199, storage=100), residency=residency(backed_up_tokens=199)),
        "supports",
        "199 tokens backed up",
    ),
    (
        "residency",
        but(attribution=scheduler(host=199, storage=100), residency=residency(backed_up_tokens=150)),
        "silent",
        "199 were read",
    ),
    ("provenance", but(), "supports", "299 of 299 host slots read were written by the backup of request request-a"),
    ("transfer", but(), "supports", "299 tokens host to device in 1 transfer(s), finished"),
    ("attribution", but(), "supports", "cached tokens L1 0, L2 299, L3 0"),
    ("counters", but(L1_HIT, counters=counters(0, 0)), "contradicts", "load-back 0"),
    ("ranks", but(L1_HIT, ranks=(sibling(0, 0),)), "silent", "none of them tells of an L2 read"),
]


@pytest.mark.parametrize(("name", "evidence", "stance", "words"), OF_OTHER_FACTS_TOO)
def test_what_each_witness_says_in_the_light_of_others(name: str, evidence: Evidence, stance: str, words: str) -> None:
    state = WITNESSES[name](evidence)
    assert (state.name, state.stance) == (name, stance)
    assert words in state.says


def test_without_its_facts_a_witness_is_absent() -> None:
    nothing = Evidence(request_id="r", engine="e", rank="tp0", recorder=RECORDER_OFF)
    assert {witness(nothing).stance for witness in WITNESSES.values()} == {"absent"}


def test_a_statement_that_ends_without_remarks_has_none() -> None:
    assert WITNESSES["transfer"](but()).says == "299 tokens host to device in 1 transfer(s), finished"
    assert WITNESSES["load_back"](but()).says == "loaded 299 of 299 promised tokens"
    assert WITNESSES["provenance"](but(provenance=replace(provenance(), writers=written_by("abc")))).says.endswith("c")
    assert "markers" not in WITNESSES["answer"](but(answer=answer(planted=0, recalled=0))).says


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


OWN = "177400 bytes crossed the bus for 153088 claimed (ratio 1.16)"
OF_SIBLINGS = [
    ("nobody measured theirs", (None, None), OWN),
    ("all agree", (physical(), physical(bus=166_000)), f"{OWN}; on every rank: tp1 ratio 1.16, tp2 ratio 1.08"),
    ("one was not measured", (physical(), None), f"{OWN}; sibling ranks: tp1 ratio 1.16, tp2 not measured"),
    (
        "one can't be used",
        (physical(usable=False, why_not="MIG is on"), physical()),
        f"{OWN}; sibling ranks: tp1 not usable here: MIG is on, tp2 ratio 1.16",
    ),
]


@pytest.mark.parametrize(("seen", "says"), [row[1:] for row in OF_SIBLINGS], ids=[row[0] for row in OF_SIBLINGS])
def test_what_the_bus_says_of_sibling_ranks_is_told_beside_this_rank_s(seen: tuple[object, ...], says: str) -> None:
    ranks = tuple(sibling(rank=f"tp{rank}", physical=one) for rank, one in enumerate(seen, 1))
    state = WITNESSES["physical"](but(physical=physical(), ranks=ranks))
    assert (state.stance, state.says) == ("supports", says)


def test_on_every_rank_is_said_only_where_this_rank_agrees_too() -> None:
    state = WITNESSES["physical"](but(physical=physical(bus=900_000), ranks=(sibling(physical=physical()),)))
    assert state.stance == "silent"
    assert state.says.endswith("shared the bus; sibling ranks: tp1 ratio 1.16")


def test_each_rank_whose_bytes_are_missing_is_named() -> None:
    ranks = tuple(sibling(rank=f"tp{rank}", physical=physical(bus=bus)) for rank, bus in ((1, 40_000), (2, 178_000)))
    state = WITNESSES["physical"](but(physical=physical(bus=50_000), ranks=ranks))
    assert (state.stance, state.says) == (
        "contradicts",
        "49400 bytes crossed the bus for 153088 claimed (ratio 0.32); "
        "rank tp1: 39400 bytes crossed the bus for 153088 claimed (ratio 0.26)",
    )


def test_the_bound_is_the_same_on_every_rank() -> None:
    def stance(bus: int) -> str:
        ranks = (sibling(physical=physical(bus=bus, claimed=100_000)),)
        return WITNESSES["physical"](but(physical=physical(), ranks=ranks)).stance

    assert (stance(98_600), stance(98_599)) == ("supports", "contradicts")


def test_a_stepped_clock_silences_the_bus_of_every_rank() -> None:
    stepped = Recorder(watching=True, lost_records=0, clock_stepped=True)
    assert judge(but(recorder=stepped, ranks=(sibling(physical=physical(bus=40_000)),))).verdict == "proven"


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
