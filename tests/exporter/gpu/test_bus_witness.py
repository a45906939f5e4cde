"""From the bytes on the bus to the physical evidence on a request."""

from types import SimpleNamespace

import msgspec
import pytest

from hicache_exporter.app import App
from hicache_exporter.bus_witness import BusWitness
from hicache_exporter.config import Settings
from hicache_exporter.core.bus_evidence import Claim, RankClaim, claim_of, physical
from hicache_exporter.core.identity import parse_identity
from hicache_exporter.core.pcie_meter import Gap
from hicache_exporter.core.pcie_window import BusBytes, BusWindow
from hicache_exporter.rank_processes import gpu_of, rank_processes
from hicache_exporter.sources.gpu_probe import GpuProbe
from hicache_proof.evidence import Evidence, Physical, RankView, Recorder, Transfer
from hicache_proof.witnesses import physical as physical_witness

MS = 1_000_000
CLAIMED = 1_835_008_000
FACTS = {"port": 30000, "host": "0.0.0.0", "tp_rank": 0, "host_tokens": 1000, "bytes_per_token": 512}


def transfer(**changes):
    facts = {"transfer_id": 1, "tokens": 32000, "request_tokens": 32000, "bytes": CLAIMED, "submitted_ns": 1000 * MS}
    return Transfer(**facts | {"finished_ns": 1060 * MS, "finished": True} | changes)


def evidence(*transfers):
    recorder = Recorder(watching=True, lost_records=0)
    return Evidence(request_id="r", engine="e", rank="tp0", recorder=recorder, transfers=transfers or None)


def seen(moved=CLAIMED * 116 // 100, baseline=500_000, exact=True, **changes):
    return BusWindow(**{"usable": True, "why_not": None} | changes)._replace(
        moved=BusBytes(0, moved), baseline=None if baseline is None else BusBytes(0, baseline), exact=exact
    )


def test_the_claim_spans_all_finished_transfers_of_the_request():
    later = transfer(transfer_id=2, bytes=1000, submitted_ns=1100 * MS, finished_ns=1200 * MS)
    assert claim_of((transfer(), later)) == Claim(CLAIMED + 1000, 1000 * MS, 1200 * MS)


def test_the_claim_begins_when_the_first_copy_was_queued_not_when_all_of_it_was_handed_over():
    """Page by page that takes longer than the copy: on an H200 most of 1.8 GB had crossed the bus by then."""
    assert claim_of((transfer(queued_ns=960 * MS),)) == Claim(CLAIMED, 960 * MS, 1060 * MS)


@pytest.mark.parametrize("changes", [{"bytes": None}, {"finished_ns": None, "finished": None}, {"finished": False}])
def test_what_is_unfinished_or_unsized_claims_nothing(changes):
    assert claim_of((transfer(), transfer(transfer_id=2, **changes))) is None
    assert claim_of(None) is None


CLAIM = Claim(CLAIMED, 1000 * MS, 1060 * MS)


def test_the_bytes_of_a_real_load_back_support_it():
    found = physical(CLAIM, seen())
    assert (found.usable, found.why_not, found.baseline_bytes) == (True, None, 500_000)
    assert physical_witness.testify(witnessed(found)).stance == "supports"


def test_a_bus_that_stood_still_contradicts_it():
    assert physical_witness.testify(witnessed(physical(CLAIM, seen(moved=500_000)))).stance == "contradicts"


def test_too_few_bytes_in_a_window_with_a_rest_prove_nothing_but_enough_do():
    few = physical(CLAIM, seen(moved=500_000, exact=False))
    assert not few.usable
    assert physical_witness.testify(witnessed(few)).stance == "silent"
    assert physical(CLAIM, seen(exact=False)).usable


def test_a_window_that_is_unusable_keeps_its_reason():
    found = physical(CLAIM, seen(usable=False, why_not="a counter may have wrapped unseen"))
    assert (found.usable, found.why_not) == (False, "a counter may have wrapped unseen")


def test_without_a_quiet_rate_there_is_nothing_to_subtract():
    found = physical(CLAIM, seen(baseline=None))
    assert found.why_not.startswith("too few samples")
    assert (found.bus_bytes, found.baseline_bytes) == (CLAIMED * 116 // 100, None)


def test_bytes_that_nobody_measured_are_not_zero_bytes():
    for window in (BusWindow(False, "the probe gives no answer"), BusWindow(True, None, None, BusBytes(0, 0))):
        found = physical(CLAIM, window)
        assert (found.usable, found.bus_bytes) == (False, None)
        assert found.why_not
        assert physical_witness.testify(witnessed(found)).stance == "silent"


def test_a_window_without_bytes_is_silent_even_if_it_is_called_usable():
    hollow = Physical(claimed_bytes=CLAIMED, bus_bytes=None, baseline_bytes=None, usable=True)
    assert physical_witness.testify(witnessed(hollow)).stance == "silent"


def witnessed(physical_evidence):
    return msgspec.structs.replace(evidence(transfer()), physical=physical_evidence)


@pytest.fixture
def sampled(tmp_path):
    """A probe whose history shows one load-back of CLAIMED bytes, 16 % overhead, on GPU-a at 1.0 s."""
    probe = GpuProbe(tmp_path)

    def make(*uuids, until_ms=1500, moved=("GPU-a",)):
        for uuid in uuids:
            area = probe._board.area(uuid)
            for at in range(0, until_ms, 20):
                rx = at * 10 + (CLAIMED * 116 // 100 if at >= 1040 and uuid in moved else 0)
                area.tx.append(at * MS, at * MS + 1, at, Gap.EXACT)
                area.rx.append(at * MS, at * MS + 1, rx, Gap.EXACT)
        return BusWitness(probe)

    yield make
    probe.stop()


ONE_TRANSFER = (transfer(),)


def case(*gpus, transfers=ONE_TRANSFER):
    """A request of which every rank tells the same transfers; ``gpus`` are what the ranks name as theirs."""
    identities = [parse_identity(FACTS | {"tp_rank": rank, "gpu_uuid": gpu}) for rank, gpu in enumerate(gpus)]
    claims = {identity.rank: RankClaim(identity, claim_of(transfers)) for identity in identities}
    views = (RankView(rank=rank, host_tokens=1, loaded_tokens=1) for rank in list(claims)[1:])
    told = msgspec.structs.replace(evidence(*transfers), ranks=tuple(views))
    return SimpleNamespace(evidence=told, claims=claims)


def seen_by(witness, found):
    """The evidence on the bus, the leading rank's first."""
    told = witness(found, found.evidence)
    return [told.physical, *(view.physical for view in told.ranks)]


def test_the_witness_looks_at_the_gpu_that_the_rank_names(sampled):
    witness = sampled("GPU-a", "GPU-b")
    (found,) = seen_by(witness, case("a"))
    assert found.usable
    assert found.bus_bytes == pytest.approx(1.16 * CLAIMED, rel=1e-4)
    (other,) = seen_by(witness, case("GPU-b"))
    assert physical_witness.testify(witnessed(other)).stance == "contradicts"


def test_each_rank_is_held_against_its_own_gpu(sampled):
    own, sibling = seen_by(sampled("GPU-a", "GPU-b"), case("a", "b"))
    assert (own.usable, sibling.usable) == (True, True)
    assert (own.claimed_bytes, sibling.claimed_bytes) == (CLAIMED, CLAIMED)
    assert own.bus_bytes - own.baseline_bytes > CLAIMED
    assert sibling.bus_bytes - sibling.baseline_bytes < 1000


def test_ranks_that_share_a_gpu_are_not_usable_as_the_bytes_of_one_could_stand_in_for_those_of_the_other(sampled):
    own, sibling, elsewhere = seen_by(sampled("GPU-a", "GPU-b", moved=("GPU-a", "GPU-b")), case("a", "a", "b"))
    assert (own.usable, sibling.usable, elsewhere.usable) == (False, False, True)
    assert own.why_not == "its GPU serves tp1 too, and the bytes can't be told apart"
    assert sibling.why_not == "its GPU serves tp0 too, and the bytes can't be told apart"


def test_two_ranks_that_name_no_gpu_share_the_only_one(sampled):
    assert [found.usable for found in seen_by(sampled("GPU-a"), case(None, None))] == [False, False]


def test_a_rank_that_names_no_gpu_is_on_the_only_one_or_unknown(sampled):
    assert seen_by(sampled("GPU-a"), case(None))[0].usable
    (unknown,) = seen_by(sampled("GPU-a", "GPU-b"), case(None))
    assert unknown.why_not == "the engine does not tell which of the GPUs it uses"


def test_without_a_gpu_or_a_claim_the_witness_is_absent_not_silent(sampled):
    assert seen_by(sampled(), case("a", "b")) == [None, None]
    assert seen_by(sampled("GPU-a"), case("a", "b", transfers=())) == [None, None]


def test_a_window_that_is_not_closed_yet_on_any_rank_is_early(sampled):
    witness = sampled("GPU-a", until_ms=1050)
    assert witness.is_early(case("a"))
    assert not witness.is_early(case("a", transfers=()))
    witness = sampled("GPU-b")
    assert not witness.is_early(case("b"))
    assert witness.is_early(case("b", "a"))


def test_a_gpu_whose_counters_were_never_read_is_not_waited_for(sampled):
    witness = sampled("GPU-a", until_ms=0)
    assert not witness.is_early(case("a"))
    (unread,) = seen_by(witness, case("a"))
    assert unread.why_not == "its counters are not read"


@pytest.mark.parametrize(("ended_ms_ago", "held"), [(1, True), (299, True), (301, False), (-301, False)])
def test_a_final_verdict_waits_for_the_closing_sample_but_not_for_ever(tmp_path, ended_ms_ago, held):
    """A claim that ends in the future is of another clock: no sample will come after it."""
    sidecar = App(Settings(ring_folder=str(tmp_path), off=frozenset(("gpu", "pcie", "host"))))
    sidecar.bus = SimpleNamespace(is_early=lambda _: True)
    identity = parse_identity(FACTS)
    claim = Claim(CLAIMED, 0, 10_000 * MS)
    waiting = SimpleNamespace(final=True, claims={"tp0": RankClaim(identity, claim), "tp1": RankClaim(identity, None)})
    assert sidecar._hold(waiting, claim.t1_ns + ended_ms_ago * MS) is held
    assert sidecar._held == [waiting] * held


def followed(**changes):
    memory = {"allocated": 5, "reserved": 90, "weights": 20, "kv_pool": 60}
    parts = {"identity": parse_identity(FACTS | {"gpu_uuid": "a"}), "memory": memory, "ended": False}
    return SimpleNamespace(
        ledger=SimpleNamespace(**parts | changes),
        engine=SimpleNamespace(label="127.0.0.1:30000"),
        ring=SimpleNamespace(header=SimpleNamespace(pid=77, created_ns=5)),
    )


def test_ranks_are_processes_with_their_gpu_their_l2_and_their_account_of_memory():
    follower = SimpleNamespace(followed={"one": followed(), "dead": followed(ended=True)})
    (rank,) = rank_processes(follower)
    assert (rank.engine, rank.rank, rank.pid, rank.born_ns) == ("127.0.0.1:30000", "tp0", 77, 5)
    assert (rank.gpu_uuid, rank.l2_bytes) == ("GPU-a", 512_000)
    assert rank.memory == (90, 20, 60)


def test_what_a_rank_does_not_tell_is_unknown():
    bare = {"port": 30000}
    follower = SimpleNamespace(followed={"one": followed(identity=parse_identity(bare), memory={})})
    (rank,) = rank_processes(follower)
    assert (rank.gpu_uuid, rank.l2_bytes, rank.memory) == (None, None, (None, None, None))
    assert gpu_of(parse_identity(bare | {"gpu_uuid": 5})) is None
