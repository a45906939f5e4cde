"""When a request is ripe for a judgement, and what its sibling ranks add."""

from hypothesis import given, settings
from hypothesis import strategies as st

from hicache_exporter.core.decoding import Loss
from hicache_exporter.core.engine_ledger import FINAL_NS, PROVISIONAL_NS, EngineLedger
from hicache_exporter.core.identity import parse_identity
from hicache_proof.verdict import judge
from hicache_tracing.records import ContentMode, Direction, Kind

from ..scribe import IDENTITY, MS, Scribe
from .ledgers import ALL_ATTACHED, CLOCK, tell


def engine_with(*ranks, **identity):
    """An engine's ledger and one open ring for each tp rank."""
    engine = EngineLedger("127.0.0.1:30000", 0)
    rings = []
    for rank in ranks:
        facts = {**IDENTITY, "tp_size": len(ranks), "tp_rank": rank, **identity}
        ledger = engine.open(f"ring-{rank}", parse_identity(facts), CLOCK)
        ledger.see_seams(ALL_ATTACHED)
        rings.append(ledger)
    return engine, rings


def test_a_request_is_judged_once_when_everything_is_told():
    engine, (ledger,) = engine_with(0)
    scribe = Scribe()
    scribe.cold_request("a", node=7)
    scribe.demote(7, 300)
    scribe.host_request("c", node=7)
    tell(ledger, scribe)
    cases = engine.due(scribe.now_ns)
    assert [(case.evidence.request_id, case.final) for case in cases] == [("a", True), ("c", True)]
    assert engine.due(scribe.now_ns + 100 * FINAL_NS) == []


def test_a_request_whose_load_is_still_under_way_waits():
    engine, (ledger,) = engine_with(0)
    scribe = Scribe()
    scribe.lookup("c", 300, host=299)
    scribe.load("c", 1, [(0, 299)])
    scribe.admit("c", 300, host=299)
    scribe.transfer(1, Direction.HOST_TO_DEVICE, [(1, 1)], 299)
    scribe.first_token("c")
    tell(ledger, scribe)
    assert engine.due(scribe.now_ns) == []
    scribe.transfer_done(1, Direction.HOST_TO_DEVICE, 299)
    tell(ledger, scribe)
    (case,) = engine.due(scribe.now_ns)
    assert case.final


def test_it_waits_for_the_content_witness_where_there_is_one():
    engine, (ledger,) = engine_with(0, content_mode="full")
    scribe = Scribe()
    scribe.host_request("c")
    tell(ledger, scribe)
    assert engine.due(scribe.now_ns) == []
    scribe.write(Kind.CONTENT, transfer_id=100, checked=299, mode=ContentMode.FULL, layers=4)
    tell(ledger, scribe)
    (case,) = engine.due(scribe.now_ns)
    assert case.evidence.content.checked == 299


def test_what_stays_untold_is_judged_for_now_then_for_good_and_late_news_correct_it():
    engine, (ledger,) = engine_with(0)
    scribe = Scribe()
    scribe.lookup("c", 300, host=299)
    scribe.load("c", 1, [(0, 299)])
    scribe.admit("c", 300, host=299)
    scribe.transfer(1, Direction.HOST_TO_DEVICE, [(1, 1)], 299)
    admitted = scribe.now_ns
    tell(ledger, scribe)
    assert [case.final for case in engine.due(admitted + PROVISIONAL_NS)] == [False]
    assert engine.due(admitted + PROVISIONAL_NS + MS) == []
    assert [case.final for case in engine.due(admitted + FINAL_NS)] == [True]
    scribe.transfer_done(1, Direction.HOST_TO_DEVICE, 299)
    tell(ledger, scribe)
    (late,) = engine.due(admitted + 2 * FINAL_NS)
    assert (late.final, late.evidence.transfers[0].finished) == (False, True)


def test_an_engine_that_dies_leaves_unfinished_requests_unproven():
    engine, (ledger,) = engine_with(0)
    scribe = Scribe()
    scribe.cold_request("a")
    scribe.lookup("c", 300, host=299)
    scribe.load("c", 1, [(0, 299)])
    scribe.admit("c", 300, host=299)
    tell(ledger, scribe)
    engine.due(scribe.now_ns)
    ledger.end()
    (case,) = engine.due(scribe.now_ns)
    assert (case.final, case.evidence.recorder.engine_restarted) == (True, True)
    assert judge(case.evidence).verdict == "not_observed"


def test_counts_go_on_when_the_engine_comes_back():
    engine, (ledger,) = engine_with(0)
    scribe = Scribe()
    scribe.cold_request("a")
    tell(ledger, scribe)
    ledger.end()
    again = engine.open("ring-again", parse_identity(IDENTITY), CLOCK)
    scribe = Scribe()
    scribe.cold_request("a")
    tell(again, scribe)
    assert engine.totals["tp0"].requests["none"] == 2


def test_only_the_leading_rank_is_judged_and_hears_its_siblings():
    engine, (first, second) = engine_with(0, 1)
    for ledger in (first, second):
        scribe = Scribe()
        scribe.host_request("c")
        tell(ledger, scribe)
    (case,) = engine.due(scribe.now_ns)
    assert case.final
    assert case.evidence.rank == "tp0"
    assert [(v.rank, v.host_tokens, v.loaded_tokens) for v in case.evidence.ranks] == [("tp1", 299, 299)]


def test_what_a_sibling_told_may_be_forgotten_once_the_verdict_is_final(monkeypatch):
    from hicache_exporter.core import requests

    monkeypatch.setattr(requests, "MAX_SIBLING_STORIES", 2)
    engine, (first, second) = engine_with(0, 1)
    judged = []
    for request in "abcdef":
        for ledger in (first, second):
            scribe = Scribe()
            scribe.next_seq = 1 + 100 * len(judged)
            scribe.lookup(request, 300)
            scribe.admit(request, 300)
            scribe.first_token(request, 300)
            tell(ledger, scribe)
        judged += engine.due(scribe.now_ns)
    assert [(case.evidence.request_id, case.final) for case in judged] == [(request, True) for request in "abcdef"]
    assert engine.totals["tp1"].forgotten["requests"] == 0
    assert len(second.stories) == 2


def test_it_waits_for_a_live_sibling_but_not_for_a_dead_one():
    engine, (first, second) = engine_with(0, 1)
    scribe = Scribe()
    scribe.host_request("c")
    tell(first, scribe)
    assert engine.due(scribe.now_ns) == []
    second.end()
    (case,) = engine.due(scribe.now_ns + FINAL_NS)
    assert case.evidence.ranks == ()


def test_a_rank_that_loaded_less_contradicts():
    engine, (first, second) = engine_with(0, 1)
    scribe = Scribe()
    scribe.cold_request("a", node=7)
    scribe.demote(7, 300)
    scribe.host_request("c", node=7)
    tell(first, scribe)
    scribe = Scribe()
    scribe.cold_request("a", node=7)
    scribe.demote(7, 300)
    scribe.host_request("c", 200, node=7)
    tell(second, scribe)
    case = engine.due(scribe.now_ns)[-1]
    assert judge(case.evidence).verdict == "contradicted"


def test_a_rank_that_lost_records_contradicts_nobody():
    engine, (first, second) = engine_with(0, 1)
    scribe = Scribe()
    scribe.host_request("c")
    tell(first, scribe)
    scribe = Scribe()
    scribe.host_request("c", 200)
    tell(second, scribe)
    second.tell([], {}, [Loss("torn", 2, 2, 1)])
    (case,) = engine.due(scribe.now_ns)
    assert [(v.rank, v.host_tokens, v.loaded_tokens) for v in case.evidence.ranks] == [("tp1", None, None)]


def test_rows_that_a_sibling_could_not_compare_are_not_called_intact():
    engine, ledgers = engine_with(0, 1, content_mode="full")
    for ledger, unseen in zip(ledgers, (0, 7), strict=True):
        scribe = Scribe()
        scribe.cold_request("a", node=7)
        scribe.demote(7, 300)
        scribe.host_request("c", node=7)
        scribe.write(
            Kind.CONTENT, transfer_id=100, checked=299 - unseen, unseen=unseen, mode=ContentMode.FULL, layers=4
        )
        tell(ledger, scribe)
    case = engine.due(scribe.now_ns)[-1]
    assert [(view.mismatched, view.unseen) for view in case.evidence.ranks] == [(0, 7)]
    judged = judge(case.evidence)
    assert (judged.verdict, judged.content) == ("corroborated", "not_checked")
    assert "content: rank tp1: 7 rows without a signature" in judged.reasons


def test_each_rank_claims_the_bytes_and_the_time_of_its_own_transfers():
    engine, (first, second) = engine_with(0, 1)
    for ledger, start_ms in ((first, 1000), (second, 1007)):
        scribe = Scribe(start_ms * MS)
        scribe.host_request("c")
        tell(ledger, scribe)
    (case,) = engine.due(scribe.now_ns)
    own, sibling = (case.claims[rank].claim for rank in ("tp0", "tp1"))
    assert (own.bytes, sibling.bytes) == (299 * 512, 299 * 512)
    assert (sibling.t0_ns - own.t0_ns, sibling.t1_ns - own.t1_ns) == (7 * MS, 7 * MS)
    assert case.claims["tp1"].identity.rank == "tp1"


def test_a_rank_that_lost_records_or_saw_no_end_claims_nothing():
    engine, (first, second, third) = engine_with(0, 1, 2)
    for ledger, told in ((first, True), (second, True), (third, False)):
        scribe = Scribe()
        scribe.host_request("c")
        if not told:
            del scribe.pieces[-2:]
            scribe.next_seq -= 2
        tell(ledger, scribe)
    second.tell([], {}, [Loss("torn", 2, 2, 1)])
    (case,) = engine.due(scribe.now_ns + FINAL_NS)
    assert {rank: found.claim is not None for rank, found in case.claims.items()} == {
        "tp0": True,
        "tp1": False,
        "tp2": False,
    }


def test_ranks_of_another_data_parallel_group_are_no_siblings():
    engine = EngineLedger("127.0.0.1:30000", 0)
    for rank in (0, 1):
        facts = {**IDENTITY, "dp_size": 2, "dp_rank": rank}
        engine.open(f"ring-{rank}", parse_identity(facts), CLOCK).see_seams(ALL_ATTACHED)
    scribe = Scribe()
    scribe.host_request("c")
    tell(engine.ranks["ring-1"], scribe)
    (case,) = engine.due(scribe.now_ns)
    assert (case.evidence.rank, case.evidence.ranks) == ("dp1-tp0", ())
    assert engine.leading == {"dp0-tp0", "dp1-tp0"}


def stories(requests):
    """What a rank tells of some requests, in pieces of one record each."""
    scribe = Scribe()
    for index, (kind, tokens) in enumerate(requests):
        if kind == "cold":
            scribe.cold_request(f"r{index}", tokens, node=7 + index, operation=index + 1, slot=index * 400)
            scribe.demote(7 + index, tokens)
        else:
            scribe.host_request(f"r{index}", tokens, node=7, operation=index + 1, transfer=1000 + index)
    return scribe


REQUESTS = st.lists(st.tuples(st.sampled_from(("cold", "host")), st.integers(20, 300)), min_size=1, max_size=6)


@settings(max_examples=100, deadline=None)
@given(REQUESTS, st.data())
def test_the_order_in_which_two_rings_are_read_does_not_matter(requests, data):
    def final_evidence(choose):
        engine, rings = engine_with(0, 1)
        scribes = [stories(requests), stories(requests)]
        pieces = [list(scribe.pieces) for scribe in scribes]
        seqs = [1, 1]
        told = {}
        while pieces[0] or pieces[1]:
            rank = choose(pieces)
            scribe = scribes[rank]
            scribe.pieces = [pieces[rank].pop(0)]
            scribe.next_seq = seqs[rank] = seqs[rank] + len(scribe.pieces[0]) // 128
            tell(rings[rank], scribe)
            told.update({case.evidence.request_id: case.evidence for case in engine.due(scribes[0].now_ns)})
        return told, engine.totals

    def one_after_the_other(pieces):
        return 0 if pieces[0] else 1

    def any_order(pieces):
        return data.draw(st.sampled_from([rank for rank in (0, 1) if pieces[rank]]))

    assert final_evidence(any_order)[0] == final_evidence(one_after_the_other)[0]
    assert len(final_evidence(one_after_the_other)[0]) == len(requests)
