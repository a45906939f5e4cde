"""Stories into evidence, and the verdict that the rules give on it."""

import pytest

from hicache_exporter.core.decoding import Loss
from hicache_proof.verdict import judge
from hicache_tracing.records import ABSENT, ContentMode, Direction, Kind, LoadBackOutcome

from ..scribe import MS, SEAMS, Scribe
from .ledgers import ALL_ATTACHED, evidence, new_ledger, tell


@pytest.fixture
def scribe():
    return Scribe()


@pytest.fixture
def ledger():
    return new_ledger()


def backed_up_evicted_and_read_back(scribe):
    scribe.cold_request("a", node=7)
    scribe.demote(7, 300)
    scribe.host_request("c", node=7)


def test_the_whole_story_of_an_l2_read(ledger, scribe):
    backed_up_evicted_and_read_back(scribe)
    tell(ledger, scribe)
    told = evidence(ledger, "c")
    assert told.recorder.watching
    assert told.recorder.lost_records == 0
    assert told.lookup.host_tokens == 299
    assert told.load_back.outcome == "loaded"
    assert (told.residency.backed_up_tokens, told.residency.left_device_tokens) == (299, 299)
    assert told.residency.node_seen_leaving
    assert not told.residency.returned_since
    (writer,) = told.provenance.writers
    assert (writer.request_id, writer.tokens, told.provenance.slots_known) == ("a", 299, 299)
    (transfer,) = told.transfers
    assert (transfer.tokens, transfer.request_tokens, transfer.bytes) == (299, 299, 299 * 512)
    assert (transfer.finished, transfer.device_seconds, transfer.requests) == (True, 0.002, 1)
    assert told.attribution.host_tokens == 299
    assert told.computed_tokens == 1
    assert judge(told).verdict == "proven"


def test_a_request_that_found_nothing_read_nothing(ledger, scribe):
    backed_up_evicted_and_read_back(scribe)
    tell(ledger, scribe)
    told = evidence(ledger, "a")
    assert (told.load_back, told.residency, told.provenance, told.transfers) == (None, None, None, ())
    assert judge(told).verdict == "no_read"


def lost(ledger, scribe, count):
    first = scribe.next_seq
    scribe.next_seq += count
    tell(ledger, scribe)
    ledger.tell([], {}, [Loss("overwritten", first, first + count - 1, count)])


def half_told(scribe):
    """Up to its admission."""
    scribe.cold_request("a", node=7)
    scribe.demote(7, 300)
    scribe.lookup("c", 300, host=299, node=7)
    scribe.load("c", 1, [(0, 299)], node=7)
    scribe.load_back("c", 299, 299, node=7)
    scribe.admit("c", 300, host=299)


def test_what_is_missing_at_the_end_of_a_story_may_have_been_lost(ledger, scribe):
    """Else the transfer that was overwritten would be called one that never was."""
    half_told(scribe)
    tell(ledger, scribe)
    lost(ledger, scribe, 50)
    told = evidence(ledger, "c")
    assert told.recorder.lost_records == 50
    assert judge(told).verdict == "not_observed"
    assert judge(evidence(ledger, "a")).verdict == "no_read", "told to its end before that"


def test_an_engine_that_stands_still_contradicts_nothing(ledger, scribe):
    half_told(scribe)
    tell(ledger, scribe)
    told = evidence(ledger, "c")
    assert told.transfers is None, "not none: still to come"
    assert judge(told).verdict == "consistent"
    scribe.first_token("c", 300)
    tell(ledger, scribe)
    told = evidence(ledger, "c")
    assert told.transfers == (), "the engine went on without one"
    assert judge(told).verdict == "contradicted"


@pytest.mark.parametrize("when", ["before", "between", "after"])
def test_a_fault_of_the_recorders_own_is_a_hole_in_the_story(ledger, scribe, when):
    """It may have kept a backup from us: the slots that were read could then be another request's."""
    if when == "before":
        scribe.write(Kind.SEAM_FAULT, seam=1, state=2, faults=1)
    scribe.cold_request("a", node=7)
    scribe.demote(7, 300)
    if when == "between":
        scribe.write(Kind.SEAM_FAULT, seam=1, state=2, faults=1)
    scribe.host_request("c", node=7)
    if when == "after":
        scribe.write(Kind.SEAM_FAULT, seam=1, state=2, faults=1)
    tell(ledger, scribe)
    told = evidence(ledger, "c")
    assert told.recorder.lost_records == (when == "between")
    assert judge(told).verdict == ("not_observed" if when == "between" else "proven")
    assert not any(ledger.totals.lost.values()), "the seam counts its faults itself"


def test_content_makes_it_corroborated_or_damaged(ledger, scribe):
    backed_up_evicted_and_read_back(scribe)
    scribe.write(Kind.CONTENT, transfer_id=100, checked=299, mismatched=0, mode=ContentMode.FULL, layers=4)
    tell(ledger, scribe)
    told = evidence(ledger, "c")
    assert (told.content.checked, told.content.mode, told.content.layers) == (299, "full", 4)
    judgement = judge(told)
    assert (judgement.verdict, judgement.content) == ("corroborated", "intact")
    scribe.host_request("d", node=7, operation=2, transfer=101)
    scribe.write(Kind.CONTENT, transfer_id=101, checked=299, mismatched=5, mode=ContentMode.SAMPLED, layers=2)
    tell(ledger, scribe)
    assert judge(evidence(ledger, "d")).content == "damaged"


def test_a_transfer_without_a_content_check_leaves_its_rows_unseen(ledger, scribe):
    scribe.lookup("c", 300, host=200)
    for operation, transfer in ((1, 10), (2, 11)):
        scribe.load("c", operation, [(operation * 100, 100)])
        scribe.transfer(transfer, Direction.HOST_TO_DEVICE, [(1, operation)], 100)
    scribe.admit("c", 300, host=200)
    scribe.transfer_done(10, Direction.HOST_TO_DEVICE, 100)
    scribe.transfer_done(11, Direction.HOST_TO_DEVICE, 100)
    scribe.write(Kind.CONTENT, transfer_id=10, checked=100, mode=ContentMode.FULL, layers=4)
    tell(ledger, scribe)
    assert evidence(ledger, "c").content.unseen == 100


def test_a_lost_record_since_the_backup_voids_the_proof(ledger, scribe):
    scribe.cold_request("a", node=7)
    scribe.lookup("other", 5)
    scribe.pieces[-1] = bytes(128)
    scribe.demote(7, 300)
    scribe.host_request("c", node=7)
    tell(ledger, scribe)
    told = evidence(ledger, "c")
    assert told.recorder.lost_records == 1
    assert judge(told).verdict == "not_observed"


def test_a_record_lost_before_the_backup_does_not_matter(ledger, scribe):
    scribe.lookup("other", 5)
    scribe.pieces[-1] = bytes(128)
    backed_up_evicted_and_read_back(scribe)
    tell(ledger, scribe)
    assert evidence(ledger, "c").recorder.lost_records == 0


def test_without_its_lookup_any_earlier_loss_may_concern_a_request(ledger, scribe):
    scribe.lookup("c", 300)
    scribe.pieces[-1] = bytes(128)
    scribe.admit("c", 300)
    scribe.first_token("c")
    tell(ledger, scribe)
    told = evidence(ledger, "c")
    assert (told.recorder.lost_records, told.recorder.watching) == (1, False)


@pytest.mark.parametrize("seam", SEAMS[:7])
def test_without_a_needed_seam_nobody_was_watching(scribe, seam):
    ledger = new_ledger()
    ledger.see_seams({**ALL_ATTACHED, seam: "tripped"})
    backed_up_evicted_and_read_back(scribe)
    tell(ledger, scribe)
    assert not evidence(ledger, "c").recorder.watching


def test_a_seam_of_another_tree_is_not_missed(scribe):
    ledger = new_ledger()
    ledger.see_seams({**ALL_ATTACHED, "HiRadixCache.init_load_back": "missing"})
    backed_up_evicted_and_read_back(scribe)
    tell(ledger, scribe)
    assert evidence(ledger, "c").recorder.watching


def watching(scribe, ledger):
    backed_up_evicted_and_read_back(scribe)
    tell(ledger, scribe)
    return evidence(ledger, "c").recorder.watching


def test_nor_does_one_of_another_tree_stand_in(scribe):
    assert watching(scribe, new_ledger(in_use=list(SEAMS)))
    assert not watching(
        scribe, new_ledger(in_use=[name for name in SEAMS if name != "UnifiedRadixCache.loading_check"])
    )


class TestUnderStorage:
    """Host slots that storage filled were written by no backup: without the seam that tells it, nothing is proven."""

    def ledger(self, *seams, **identity):
        ledger = new_ledger(**identity)
        ledger.see_seams({**ALL_ATTACHED, **dict.fromkeys(seams, "attached")})
        return ledger

    def test_the_engine_was_started_with_it(self, scribe):
        assert not watching(scribe, self.ledger(storage_backend="file"))

    @pytest.mark.parametrize(
        "seam", ["UnifiedRadixCache._handle_prefetch_result", "HiRadixCache.check_prefetch_progress"]
    )
    def test_and_its_deliveries_are_told(self, scribe, seam):
        assert watching(scribe, self.ledger(seam, storage_backend="file"))

    def test_there_is_none(self, scribe):
        assert watching(scribe, self.ledger())

    @pytest.mark.parametrize(("succeeded", "watched"), [(1, False), (0, True)])
    def test_it_was_attached_at_run_time(self, scribe, succeeded, watched):
        scribe.write(Kind.STORAGE_ATTACH, attached=1, succeeded=succeeded)
        assert watching(scribe, self.ledger()) is watched

    @pytest.mark.parametrize("kind", [Kind.STORAGE_BACKUP, Kind.STORAGE_PREFETCH])
    def test_it_was_attached_before_anybody_looked_and_is_at_work(self, scribe, kind):
        scribe.write(kind)
        assert not watching(scribe, self.ledger())

    def test_detached_again_what_it_brought_is_still_there(self, scribe):
        scribe.write(Kind.STORAGE_ATTACH, attached=1, succeeded=1)
        scribe.write(Kind.STORAGE_ATTACH, attached=0, succeeded=1)
        assert not watching(scribe, self.ledger())


def test_without_an_eviction_seam_leaving_is_not_observable(scribe):
    ledger = new_ledger()
    ledger.see_seams({**ALL_ATTACHED, "UnifiedRadixCache._demote": "missing"})
    backed_up_evicted_and_read_back(scribe)
    tell(ledger, scribe)
    residency = evidence(ledger, "c").residency
    assert (residency.left_device_tokens, residency.node_seen_leaving) == (None, None)


def test_without_a_load_seam_transfers_are_not_observable(scribe):
    ledger = new_ledger()
    ledger.see_seams({**ALL_ATTACHED, "HiCacheController.start_loading": "missing"})
    scribe.cold_request("a")
    tell(ledger, scribe)
    assert evidence(ledger, "a").transfers is None


def test_an_engine_without_hicache_is_watched_with_fewer_seams(scribe):
    ledger = new_ledger(controller=None)
    ledger.see_seams(dict.fromkeys(SEAMS[:2], "attached"))
    scribe.lookup("a", 300)
    scribe.admit("a", 300)
    scribe.first_token("a")
    tell(ledger, scribe)
    told = evidence(ledger, "a")
    assert (told.recorder.watching, told.transfers, judge(told).verdict) == (True, (), "no_read")


def test_blocks_backed_up_before_the_recorder_was_read_prove_nothing(ledger, scribe):
    scribe.host_request("c", node=7)
    tell(ledger, scribe)
    told = evidence(ledger, "c")
    assert (told.residency, told.provenance.slots_known) == (None, 0)
    assert judge(told).verdict == "consistent"


def test_a_declined_promise(ledger, scribe):
    scribe.cold_request("a", node=7)
    scribe.demote(7, 300)
    scribe.lookup("c", 300, host=9, node=7)
    scribe.load_back("c", 9, 0, outcome=LoadBackOutcome.BELOW_THRESHOLD, node=7)
    scribe.admit("c", 300)
    scribe.first_token("c")
    tell(ledger, scribe)
    told = evidence(ledger, "c")
    assert (told.load_back.outcome, told.load_back.threshold, told.load_back.quota) == ("below_threshold", 10, None)
    assert judge(told).verdict == "no_read"


def test_what_changed_in_between_is_in_the_evidence(ledger, scribe):
    scribe.cold_request("a", node=7)
    scribe.write(Kind.WEIGHTS, updates=1)
    scribe.demote(7, 300)
    step_ns = scribe.now_ns
    scribe.host_request("c", node=7)
    tell(ledger, scribe)
    told = evidence(ledger, "c", clock_steps=(step_ns,))
    assert (told.recorder.weights_changed, told.recorder.clock_stepped) == (True, True)
    assert evidence(ledger, "c", clock_steps=(step_ns - 10_000 * MS,)).recorder.clock_stepped is False


def test_absent_is_none_and_never_zero(ledger, scribe):
    scribe.lookup("c", 300, storage=ABSENT)
    scribe.write(Kind.ADMIT, "c", prompt_tokens=300, device_tokens=ABSENT, host_tokens=ABSENT, cached_tokens=ABSENT)
    tell(ledger, scribe)
    told = evidence(ledger, "c")
    assert told.lookup.storage_tokens is None
    assert (told.attribution.device_tokens, told.attribution.host_tokens) == (None, None)


def test_one_transfer_may_serve_two_requests(ledger, scribe):
    scribe.cold_request("a", node=7)
    scribe.cold_request("b", node=8, slot=300, operation=2)
    scribe.demote(7, 300)
    scribe.demote(8, 300)
    queued = []
    for request, operation, slot, node in (("c", 1, 0, 7), ("d", 2, 300, 8)):
        scribe.lookup(request, 300, host=299, node=node)
        queued.append(scribe.now_ns)
        scribe.load(request, operation, [(slot, 299)], node=node)
        scribe.load_back(request, 299, 299, node=node)
        scribe.admit(request, 300, host=299)
    scribe.transfer(5, Direction.HOST_TO_DEVICE, [(7, 1), (8, 2)], 598)
    scribe.first_token("c")
    scribe.transfer_done(5, Direction.HOST_TO_DEVICE, 598)
    tell(ledger, scribe)
    (transfer,) = evidence(ledger, "c").transfers
    assert (transfer.tokens, transfer.request_tokens, transfer.requests) == (598, 299, 2)
    assert queued[0] == transfer.queued_ns < transfer.submitted_ns, "the earliest moment at which a byte can have moved"
    assert judge(evidence(ledger, "d")).verdict == "proven"
