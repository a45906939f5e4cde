"""What is judged from which evidence: one row a case, read as a specification."""

from __future__ import annotations

from typing import NamedTuple

import pytest

from hicache_proof.evidence import Evidence, Physical, RankView, Recorder
from hicache_proof.rules import RULES
from hicache_proof.verdict import judge

from .evidences import (
    COLD,
    EVERYTHING,
    L1_HIT,
    L2_READ,
    RECORDER_OFF,
    RETRIED,
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
)


class Case(NamedTuple):
    name: str
    evidence: Evidence
    rule: str
    served_by: str = "host"


def bus_of(seen: Physical) -> tuple[RankView, ...]:
    """A sibling rank that tells the same, and what was seen of its GPU's bus."""
    return (sibling(physical=seen),)


def void(**why: object) -> Recorder:
    return Recorder(**({"watching": True, "lost_records": 0, "lookups": 1} | why))  # type: ignore[arg-type]


PROVEN = [
    Case("the records of one rank agree", L2_READ, "all-agree"),
    Case("the reply instead of the scheduler", but(attribution=None, reply=reply()), "all-agree"),
    Case("without the load-back's answer", but(load_back=None), "all-agree"),
    Case("the bus was measured on another rank only", but(ranks=bus_of(physical())), "all-agree"),
    Case(
        "part in L1, part in L2",
        but(
            lookup=lookup(device=64, host=235),
            load_back=load_back(235, promised=235),
            provenance=provenance(235, 235),
            transfers=(transfer(235),),
            attribution=scheduler(device=64, host=235),
        ),
        "all-agree",
        "mixed",
    ),
    Case(
        "a part of the promise was loaded, and only that part is claimed",
        but(
            load_back=load_back(100),
            provenance=provenance(100, 100),
            transfers=(transfer(100),),
            attribution=scheduler(host=100),
            computed_tokens=200,
        ),
        "all-agree",
    ),
    Case(
        "one transfer carried several requests",
        but(transfers=(transfer(tokens=900, request_tokens=299, requests=3),)),
        "all-agree",
    ),
    Case("two transfers carried it", but(transfers=(transfer(200), transfer(99, transfer_id=2))), "all-agree"),
    Case(
        "a page more moved than counts as cached",
        but(
            transfers=(transfer(304),),
            provenance=provenance(304, 304),
            residency=residency(backed_up_tokens=304),
            page_size=16,
        ),
        "all-agree",
    ),
    Case(
        "L2 and L3 together, each by its origin",
        but(attribution=scheduler(host=199, storage=100), provenance=provenance(199, 299)),
        "all-agree",
        "mixed",
    ),
    Case(
        "a transfer after the first token belongs to a later prefill",
        but(transfers=(transfer(), transfer(50, transfer_id=2, submitted_ns=9000))),
        "all-agree",
    ),
]

CORROBORATED = [
    Case("the content agrees as well", but(content=content()), "all-agree-outside-too"),
    Case("sampled content is enough", but(content=content(mode="sampled")), "all-agree-outside-too"),
    Case("the bus agrees as well", but(physical=physical()), "all-agree-outside-too"),
    Case("the bus agrees on every rank", but(physical=physical(), ranks=bus_of(physical())), "all-agree-outside-too"),
    Case(
        "the bus agrees here and can't be used on another rank",
        but(physical=physical(), ranks=bus_of(physical(usable=False, why_not="a counter may have wrapped unseen"))),
        "all-agree-outside-too",
    ),
    Case("every witness there is", EVERYTHING, "all-agree-outside-too"),
]

CONSISTENT = [
    Case("no lookup recorded", but(lookup=None), "some-say-read"),
    Case("no residency known", but(residency=None), "some-say-read"),
    Case("no provenance known", but(provenance=None), "some-say-read"),
    Case("transfers not observable", but(transfers=None), "some-say-read"),
    Case("no account of cached tokens", but(attribution=None), "some-say-read", "unknown"),
    Case(
        "recorder off, the reply tells of host tokens",
        Evidence(request_id="r", engine="e", rank="tp0", recorder=RECORDER_OFF, reply=reply()),
        "some-say-read",
    ),
    Case(
        "recorder off, the counters tell of a load-back",
        Evidence(request_id="r", engine="e", rank="tp0", recorder=RECORDER_OFF, counters=counters()),
        "some-say-read",
        "unknown",
    ),
    Case("recorder off in spite of records", but(recorder=RECORDER_OFF), "some-say-read"),
    Case("the transfer was not seen finished", but(transfers=(transfer(finished=None),)), "some-say-read"),
    Case("the transfer was dropped", but(transfers=(transfer(finished=False),)), "some-say-read"),
    Case("a backup was not seen finished", but(residency=residency(unfinished_backup_tokens=64)), "some-say-read"),
    Case("only part of it was known in L2", but(residency=residency(backed_up_tokens=200)), "some-say-read"),
    Case("the blocks had come back to L1", but(residency=residency(returned_since=True)), "some-say-read"),
    Case(
        "evictions from L1 not observable",
        but(residency=residency(left_device_tokens=None, node_seen_leaving=None)),
        "some-say-read",
    ),
    Case(
        "some tokens left, which ones is not known", but(residency=residency(node_seen_leaving=None)), "some-say-read"
    ),
    Case("slots that no known backup wrote: L3 may have", but(provenance=provenance(known=200)), "some-say-read"),
    Case("no slot of known origin", but(provenance=provenance(known=0)), "some-say-read"),
    Case("not every slot of the read recorded", but(provenance=provenance(100, 100)), "some-say-read"),
    Case("a backup that ended after the read", but(provenance=provenance(written_at=5000)), "some-say-read"),
    Case(
        "the promise changed, the last found the blocks in L1",
        but(recorder=RETRIED, lookup=lookup(device=299, host=0)),
        "some-say-read",
    ),
    Case("content and bus don't stand in for a missing pillar", but(EVERYTHING, residency=None), "some-say-read"),
    Case(
        "from host memory, credited to L3, origin unknown",
        but(attribution=scheduler(host=0, storage=299), provenance=None),
        "origin-unknown",
        "storage",
    ),
]

CONTRADICTED = [
    Case("claimed, not seen moving", but(transfers=()), "claimed-not-moved"),
    Case(
        "claimed by the reply, not seen moving", but(transfers=(), attribution=None, reply=reply()), "claimed-not-moved"
    ),
    Case("more claimed than seen moving", but(transfers=(transfer(100),)), "claimed-not-moved"),
    Case(
        "declined, yet claimed (engines up to 0.5.19 credit the promise)",
        but(load_back=load_back(0, "below_threshold", threshold=10), transfers=()),
        "claimed-not-moved",
    ),
    Case(
        "declined, yet claimed, transfers not observable",
        but(load_back=load_back(0, "over_quota"), transfers=None),
        "credited-not-loaded",
    ),
    Case(
        "loaded, then admission retried: counted as device",
        but(attribution=scheduler(device=299, host=0)),
        "attributed-elsewhere",
    ),
    Case(
        "the same with the last lookup meeting the blocks in L1",
        but(recorder=RETRIED, lookup=lookup(device=299, host=0), attribution=scheduler(device=299, host=0)),
        "attributed-elsewhere",
    ),
    Case(
        "loaded, evicted again before use, computed",
        but(attribution=scheduler(device=0, host=0), computed_tokens=300),
        "loaded-not-used",
    ),
    Case(
        "moved without a promise",
        but(lookup=lookup(host=0), load_back=None, attribution=None),
        "moved-without-promise",
    ),
    Case("claimed without a promise", but(lookup=lookup(host=0), load_back=None), "credited-not-promised"),
    Case(
        "more claimed than promised",
        but(lookup=lookup(host=100), load_back=None, transfers=None),
        "credited-not-promised",
    ),
    Case(
        "answered as loaded, nothing moved, nothing claimed", but(transfers=(), attribution=None), "load-back-not-moved"
    ),
    Case(
        "declined, and moved all the same",
        but(load_back=load_back(0, "no_room"), attribution=None),
        "moved-after-decline",
    ),
    Case("counted as cached and computed as well", but(computed_tokens=300), "computed-as-well"),
    Case(
        "evictions watched, the blocks never left L1",
        but(residency=residency(left_device_tokens=0, node_seen_leaving=False)),
        "never-left",
    ),
    Case(
        "credited to L3, written by a backup from the device",
        but(attribution=scheduler(host=0, storage=299)),
        "storage-not-by-origin",
    ),
    Case("scheduler and reply differ", but(reply=reply(host=200, device=99)), "accounts-differ"),
    Case("scheduler and reply differ about L1 only", but(reply=reply(device=1)), "accounts-differ"),
    Case("the load-back counter stood still", but(counters=counters(load_back=0)), "counters-differ"),
    Case("the load-back counter moved without a read", but(L1_HIT, counters=counters(299, 0)), "counters-differ"),
    Case("the counter of cached host tokens stood still", but(counters=counters(host=0)), "counters-differ"),
    Case("fewer bytes crossed the bus than claimed", but(physical=physical(bus=40_000)), "bytes-missing"),
    Case(
        "half of another rank's bytes did not cross its bus",
        but(physical=physical(), ranks=bus_of(physical(bus=89_000))),
        "bytes-missing",
    ),
    Case(
        "another rank's bytes are missing, and this rank's bus was not measured",
        but(ranks=bus_of(physical(bus=89_000))),
        "bytes-missing",
    ),
    Case("the control reads L2 too", but(control=control(host=299)), "control-reads-too"),
    Case("the control loads back too", but(control=control(load_back=299)), "control-reads-too"),
    Case("another rank attributed less", but(ranks=(sibling(host=0),)), "ranks-differ"),
    Case("another rank loaded less", but(ranks=(sibling(), sibling(loaded=100))), "ranks-differ"),
    Case("another rank read, this one did not", but(L1_HIT, ranks=(sibling(),)), "ranks-differ"),
]

NOT_OBSERVED = [
    Case("records lost", but(EVERYTHING, recorder=void(lost_records=1)), "records-lost"),
    Case("engine restarted", but(EVERYTHING, recorder=void(engine_restarted=True)), "engine-restarted"),
    Case("weights updated", but(EVERYTHING, recorder=void(weights_changed=True)), "weights-changed"),
    Case("cache flushed", but(EVERYTHING, recorder=void(reset_in_window=True)), "reset-in-window"),
    Case("records lost, nothing seen moving", but(transfers=(), recorder=void(lost_records=3)), "records-lost"),
    Case("records lost, no read seen", but(L1_HIT, recorder=void(lost_records=1)), "records-lost", "device"),
    Case(
        "nothing at all",
        Evidence(request_id="r", engine="e", rank="tp0", recorder=RECORDER_OFF),
        "nothing-known",
        "unknown",
    ),
    Case(
        "recorder off, the reply tells of L1 only",
        Evidence(request_id="r", engine="e", rank="tp0", recorder=RECORDER_OFF, reply=reply(device=299, host=0)),
        "nothing-known",
        "device",
    ),
    Case(
        "recorder off, the reply has no split",
        Evidence(
            request_id="r",
            engine="e",
            rank="tp0",
            recorder=RECORDER_OFF,
            reply=reply(device=None, host=None, storage=None, cached_tokens=299),
        ),
        "nothing-known",
        "unknown",
    ),
    Case("only a promise", but(load_back=None, transfers=None, attribution=None), "promise-only", "unknown"),
    Case(
        "a transfer still open, nothing else",
        but(load_back=None, transfers=(transfer(finished=None),), attribution=None),
        "open",
        "unknown",
    ),
    Case("transfers not observable, no read told", but(L1_HIT, transfers=None), "nothing-known", "device"),
]

NO_READ = [
    Case("cold", COLD, "nothing-promised", "none"),
    Case("L1 hit", L1_HIT, "nothing-promised", "device"),
    Case(
        "declined: below the threshold",
        but(COLD, lookup=lookup(host=9), load_back=load_back(0, "below_threshold", 9, threshold=10)),
        "declined",
        "none",
    ),
    Case(
        "declined: over quota",
        but(COLD, lookup=lookup(), load_back=load_back(0, "over_quota", quota=64)),
        "declined",
        "none",
    ),
    Case("declined: no room in L1", but(COLD, lookup=lookup(), load_back=load_back(0, "no_room")), "declined", "none"),
    Case("promised, nothing loaded, reason not observable", but(COLD, lookup=lookup()), "nothing-loaded", "none"),
    Case(
        "behind another request that loads the same prefix",
        but(L1_HIT, lookup=lookup(device=299, host=0)),
        "nothing-promised",
        "device",
    ),
    Case(
        "from L3 through host memory, by origin as well",
        but(attribution=scheduler(host=0, storage=299), provenance=provenance(known=0), residency=None),
        "storage-through-host",
        "storage",
    ),
    Case(
        "a control that reads is no witness against a request that does not",
        but(L1_HIT, control=control(host=299)),
        "nothing-promised",
        "device",
    ),
    Case("counters agree that nothing moved", but(L1_HIT, counters=counters(0, 0)), "nothing-promised", "device"),
]

ALL = {
    "proven": PROVEN,
    "corroborated": CORROBORATED,
    "consistent": CONSISTENT,
    "contradicted": CONTRADICTED,
    "not_observed": NOT_OBSERVED,
    "no_read": NO_READ,
}


@pytest.mark.parametrize(
    ("verdict", "case"),
    [pytest.param(verdict, case, id=f"{verdict}: {case.name}") for verdict, cases in ALL.items() for case in cases],
)
def test_verdict(verdict: str, case: Case) -> None:
    judged = judge(case.evidence)
    served_by = "unknown" if verdict == "contradicted" else case.served_by
    assert (judged.verdict, judged.rule, judged.served_by) == (verdict, case.rule, served_by)
    assert judged.reasons[0] == RULES[case.rule]


BEST = [
    ((), "corroborated"),
    (("content", "physical"), "proven"),
    (("content",), "corroborated"),
    (("physical",), "corroborated"),
    (("load_back", "counters", "ranks", "answer", "control"), "corroborated"),
    (("attribution",), "corroborated"),
    (("reply",), "corroborated"),
    (("attribution", "reply"), "consistent"),
    (("lookup",), "consistent"),
    (("residency",), "consistent"),
    (("provenance",), "consistent"),
    (("transfers",), "consistent"),
]


@pytest.mark.parametrize(("missing", "best"), BEST)
def test_the_best_verdict_without_some_witnesses(missing: tuple[str, ...], best: str) -> None:
    nothing = {name: () if name == "ranks" else None for name in missing}
    assert judge(but(EVERYTHING, **nothing)).verdict == best


def test_every_rule_has_a_case() -> None:
    assert {case.rule for cases in ALL.values() for case in cases} == set(RULES)


def test_the_disagreeing_pair_is_named_with_what_each_says() -> None:
    judged = judge(but(attribution=scheduler(device=299, host=0)))
    assert judged.reasons[1] == (
        "transfer against attribution: attribution counts 0 tokens from host memory, transfer shows 299"
    )


def test_the_rank_whose_bytes_are_missing_is_named() -> None:
    judged = judge(but(physical=physical(), ranks=bus_of(physical(bus=89_000))))
    says = "rank tp1: 88400 bytes crossed the bus for 153088 claimed (ratio 0.58)"
    assert judged.reasons[1] == f"transfer against physical: {says}"
    assert [(state.name, state.says) for state in judged.witnesses if state.stance == "contradicts"] == [
        ("physical", says)
    ]


def test_a_decline_names_its_limit() -> None:
    declined = load_back(0, "below_threshold", promised=9, threshold=10)
    judged = judge(but(COLD, lookup=lookup(host=9), load_back=declined))
    assert judged.reasons[1] == "declined: below the load-back threshold of 10 tokens"


def test_a_partial_load_says_so() -> None:
    evidence = but(
        load_back=load_back(100),
        provenance=provenance(100, 100),
        transfers=(transfer(100),),
        attribution=scheduler(host=100),
        computed_tokens=200,
    )
    assert "partial: 100 of 299 promised tokens were loaded" in judge(evidence).reasons


def test_a_whole_load_does_not() -> None:
    assert judge(L2_READ).reasons == (RULES["all-agree"],)


def test_only_an_account_that_credits_l3_can_disagree_with_the_origin() -> None:
    reasons = judge(but(attribution=scheduler(device=299, host=0, storage=0))).reasons
    assert not any("provenance" in reason for reason in reasons)
    assert judge(but(attribution=scheduler(host=None, storage=299))).verdict == "consistent"


def test_what_keeps_a_read_from_being_proven_is_listed() -> None:
    reasons = judge(but(residency=residency(returned_since=True), lookup=None)).reasons
    assert [reason.partition(":")[0] for reason in reasons[1:]] == ["lookup", "residency"]
