"""What holds for every evidence, however it came about."""

from __future__ import annotations

from random import Random
from typing import Any, get_args, get_type_hints

import pytest
from hypothesis import Phase, find, given, settings
from hypothesis import strategies as st
from msgspec.structs import fields, replace

from hicache_proof import evidence as facts
from hicache_proof.conflicts import find_conflicts
from hicache_proof.evidence import Evidence
from hicache_proof.rules import RULES
from hicache_proof.verdict import Judgement, Verdict, judge
from hicache_proof.witnesses import WITNESSES

from .evidences import EVERYTHING, L1_HIT, L2_READ

STRENGTH = {"not_observed": 0, "no_read": 0, "consistent": 1, "proven": 2, "corroborated": 3}

WITNESS_FACTS = (
    "lookup", "load_back", "residency", "provenance", "transfers", "attribution", "reply", "counters", "physical",
    "content", "answer", "control", "computed_tokens",
)  # fmt: skip
FACTS_OF = {"attribution": "attribution", "transfer": "transfers", "computed": "computed_tokens", "ranks": "ranks"}

# few values, so that amounts agree and disagree often
tokens = st.sampled_from([0, 1, 100, 235, 299, 300, 304])
maybe_tokens = st.none() | tokens
times = st.sampled_from([500, 1000, 1200, 1300, 2000, 5000])
flags = st.booleans()


def _value(name: str, kind: Any) -> st.SearchStrategy[Any]:
    """A strategy for one field of a fact, by its name and type."""
    if name in ("outcome",):
        return st.sampled_from(["loaded", "below_threshold", "over_quota", "no_room", "buffer_mode", "nothing", "?"])
    if name in ("max_logprob_delta", "tolerance", "device_seconds"):
        return st.sampled_from([0.0, 1e-6, 1e-3, 1.5, float("nan"), float("inf")])
    if name.endswith("bytes"):
        return st.sampled_from([0, 600, 153_088, 178_000, 900_000])
    if name.endswith("_ns"):
        return times if kind is int else st.none() | times
    options = get_args(kind)
    if kind is bool or bool in options:
        return flags if kind is bool else st.none() | flags
    if kind is int or int in options:
        return tokens if kind is int else maybe_tokens
    if options and all(isinstance(option, str) for option in options):
        return st.sampled_from(options)
    return st.sampled_from(["a", "b"]) if kind is str else st.none() | st.sampled_from(["a", "b"])


def some(fact: type, **given_: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """Any value of a fact."""
    kinds = get_type_hints(fact)
    return st.builds(
        fact, **{f.name: given_.get(f.name, _value(f.name, kinds[f.name])) for f in fields(fact)}
    )  # fmt: skip


recorders = some(
    facts.Recorder,
    watching=st.sampled_from([True, True, True, False]),
    lost_records=st.sampled_from([0, 0, 0, 0, 3]),
    lookups=st.integers(0, 3),
    **dict.fromkeys(
        ("reset_in_window", "weights_changed", "engine_restarted", "clock_stepped"),
        st.sampled_from([False] * 9 + [True]),
    ),
)

wild = some(
    Evidence,
    recorder=recorders,
    lookup=st.none() | some(facts.Lookup),
    load_back=st.none() | some(facts.LoadBack),
    residency=st.none() | some(facts.Residency),
    provenance=st.none() | some(facts.Provenance, writers=st.lists(some(facts.Writer), max_size=2).map(tuple)),
    transfers=st.none() | st.lists(some(facts.Transfer), max_size=3).map(tuple),
    attribution=st.none() | some(facts.Attribution),
    reply=st.none() | some(facts.Attribution),
    counters=st.none() | some(facts.Counters),
    physical=st.none() | some(facts.Physical),
    content=st.none() | some(facts.Content),
    answer=st.none() | some(facts.Answer),
    control=st.none() | some(facts.Control),
    ranks=st.lists(some(facts.RankView, physical=st.none() | some(facts.Physical)), max_size=3).map(tuple),
    page_size=st.sampled_from([None, 1, 16]),
)


@st.composite
def near(draw: st.DrawFn) -> Evidence:
    """A real-looking evidence with a few facts taken from a wild one: where the verdicts are made."""
    base, other = draw(st.sampled_from([EVERYTHING, L2_READ, L1_HIT])), draw(wild)
    swapped = draw(st.sets(st.sampled_from([*WITNESS_FACTS, "ranks", "recorder", "page_size"]), max_size=4))
    return replace(base, **{name: getattr(other, name) for name in swapped})


evidences = wild | near()


def without(evidence: Evidence, name: str) -> Evidence:
    return replace(evidence, **{name: None})


@given(evidences)
def test_judging_never_fails_and_always_explains(evidence: Evidence) -> None:
    judged = judge(evidence)
    assert isinstance(judged, Judgement)
    assert judged.reasons[0] == RULES[judged.rule]
    assert [state.name for state in judged.witnesses] == list(WITNESSES)
    assert all(state.says for state in judged.witnesses)


@given(evidences, st.sampled_from(WITNESS_FACTS))
def test_removing_a_witness_never_raises_the_verdict(evidence: Evidence, name: str) -> None:
    before, after = judge(evidence).verdict, judge(without(evidence, name)).verdict
    if before == "contradicted":
        return
    assert after != "contradicted"
    if before == "no_read":
        assert after in ("no_read", "not_observed", "consistent")
    else:
        assert STRENGTH[after] <= STRENGTH[before]


@given(evidences, st.sampled_from(WITNESS_FACTS))
def test_more_evidence_never_mends_a_contradiction(evidence: Evidence, name: str) -> None:
    if judge(without(evidence, name)).verdict == "contradicted":
        assert judge(evidence).verdict == "contradicted"


@given(evidences, st.sampled_from(WITNESS_FACTS))
def test_a_contradiction_outlives_every_witness_that_is_no_party_to_it(evidence: Evidence, name: str) -> None:
    conflicts = find_conflicts(evidence)
    for conflict in conflicts:
        parties = {FACTS_OF.get(party, party) for party in (conflict.one, conflict.other)}
        if name not in parties:
            assert conflict in find_conflicts(without(evidence, name))


@given(evidences, st.integers(1, 1000))
def test_lost_records_leave_nothing_proven(evidence: Evidence, lost: int) -> None:
    judged = judge(replace(evidence, recorder=replace(evidence.recorder, lost_records=lost)))
    assert (judged.verdict, judged.rule) == ("not_observed", "records-lost")


@given(evidences)
def test_a_recorder_that_was_off_proves_nothing(evidence: Evidence) -> None:
    judged = judge(replace(evidence, recorder=replace(evidence.recorder, watching=False)))
    assert judged.verdict in ("consistent", "contradicted", "not_observed")


@given(evidences, st.randoms(use_true_random=False))
def test_order_of_arrival_changes_nothing(evidence: Evidence, random: Any) -> None:
    def shuffled(items: tuple[Any, ...] | None) -> tuple[Any, ...] | None:
        return None if items is None else tuple(random.sample(items, len(items)))

    provenance = evidence.provenance
    if provenance is not None:
        provenance = replace(provenance, writers=shuffled(provenance.writers))
    other = replace(
        evidence, transfers=shuffled(evidence.transfers), ranks=shuffled(evidence.ranks), provenance=provenance
    )
    here, there = judge(evidence), judge(other)
    assert (here.verdict, here.rule, here.served_by, here.content) == (
        there.verdict, there.rule, there.served_by, there.content,
    )  # fmt: skip
    assert [state.stance for state in here.witnesses] == [state.stance for state in there.witnesses]


@given(evidences)
def test_the_bus_of_sibling_ranks_can_contradict_and_nothing_else(evidence: Evidence) -> None:
    alone = judge(replace(evidence, ranks=tuple(replace(view, physical=None) for view in evidence.ranks)))
    judged = judge(evidence)
    if judged.verdict != alone.verdict:
        assert (judged.verdict, judged.rule) == ("contradicted", "bytes-missing")


@given(evidences)
def test_damaged_content_never_raises_the_verdict(evidence: Evidence) -> None:
    if evidence.content is None:
        return
    damaged = replace(evidence, content=replace(evidence.content, mismatched=max(evidence.content.checked, 1)))
    before, after = judge(evidence), judge(damaged)
    assert after.content == "damaged"
    assert STRENGTH.get(after.verdict, 0) <= STRENGTH.get(before.verdict, 0)


@given(evidences)
def test_intact_means_every_row_of_the_read_was_compared_and_equal(evidence: Evidence) -> None:
    judged, checked = judge(evidence), evidence.content
    if judged.content == "intact":
        assert checked is not None
        assert checked.mismatched == checked.unseen == 0
        assert checked.checked > 0


@given(evidences)
def test_a_verdict_of_proof_names_its_pillars(evidence: Evidence) -> None:
    judged = judge(evidence)
    if judged.verdict in ("proven", "corroborated"):
        stances = {state.name: state.stance for state in judged.witnesses}
        assert [stances[name] for name in ("lookup", "residency", "provenance", "transfer")] == ["supports"] * 4
        assert "contradicts" not in stances.values()
        assert evidence.recorder.watching
        assert not evidence.recorder.lost_records


@pytest.mark.parametrize("verdict", get_args(Verdict))
def test_the_generated_evidence_reaches_every_verdict(verdict: str) -> None:
    enough = settings(phases=[Phase.generate], max_examples=20_000, deadline=None)
    find(near(), lambda evidence: judge(evidence).verdict == verdict, settings=enough, random=Random(1))
