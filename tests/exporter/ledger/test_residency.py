"""Where blocks had been, told from backups, evictions and loads."""

from collections import Counter

import pytest

from hicache_exporter.core import residency as module
from hicache_exporter.core.operations import Move, Operation
from hicache_exporter.core.residency import Residency
from hicache_tracing.records import Direction, EvictCause


class Cache:
    """A residency with a clock that ticks at every step."""

    def __init__(self):
        self.overwritten = []
        self.forgotten = Counter()
        self.known = Residency(
            lambda what, count: self.forgotten.update({what: count}),
            lambda backup, now: self.overwritten.append((backup.identifier, now)),
        )
        self.now = 0
        self.operations = 0

    def _operation(self, direction, node, tokens):
        self.now += 1
        self.operations += 1
        return Operation(self.operations, direction, node, tokens, b"", self.now, self.now)

    def backup(self, node, *runs, finished=True):
        backup = self._operation(Direction.DEVICE_TO_HOST, node, sum(count for _, count in runs))
        move = Move(self.operations, Direction.DEVICE_TO_HOST, backup.tokens, 0, self.now, self.now)
        move.carry(backup)
        move.finished = finished or None
        self.known.backed_up(backup, runs)
        return backup

    def demote(self, node, tokens, cause=EvictCause.DEMOTED, kept=None):
        """``kept``: the host slots that keep the copy, where the engine tells them."""
        self.now += 1
        self.known.left_device(node, cause, tokens, self.now, self.now, kept)

    def load(self, node, *runs):
        return self.known.loaded(self._operation(Direction.HOST_TO_DEVICE, node, 0), runs)


@pytest.fixture
def cache():
    return Cache()


def test_backed_up_then_seen_leaving_then_read(cache):
    backup = cache.backup(7, (0, 300))
    cache.demote(7, 300)
    read = cache.load(7, (0, 300))
    assert [(share.backup, share.tokens) for share in read.shares] == [(backup, 300)]
    assert (read.slots, read.known, read.unfinished_tokens, read.left_tokens) == (300, 300, 0, 300)
    assert (read.node_left, read.returned, read.left_at_ns) == (True, False, 2)


def test_slots_that_no_known_backup_wrote_are_not_known(cache):
    cache.backup(7, (0, 100))
    read = cache.load(7, (50, 100))
    assert (read.slots, read.known) == (100, 50)


def test_a_backup_that_was_never_seen_finished_is_told_apart(cache):
    cache.backup(7, (0, 100), finished=False)
    assert cache.load(7, (0, 100)).unfinished_tokens == 100


def test_the_last_backup_of_a_slot_is_its_writer(cache):
    old = cache.backup(1, (0, 100))
    new = cache.backup(2, (50, 100))
    shares = {share.backup: share.tokens for share in cache.load(2, (0, 150)).shares}
    assert shares == {old: 50, new: 100}


def test_blocks_that_never_left_the_device_are_told_so(cache):
    cache.backup(7, (0, 300))
    read = cache.load(7, (0, 300))
    assert (read.left_tokens, read.node_left) == (0, False)


def test_a_node_that_left_before_its_backup_does_not_count(cache):
    cache.demote(7, 300)
    cache.backup(7, (0, 300))
    assert not cache.load(7, (0, 300)).node_left


def test_tokens_dropped_without_a_host_copy_do_not_count(cache):
    cache.backup(7, (0, 300))
    cache.demote(7, 300, EvictCause.DROPPED)
    read = cache.load(7, (0, 300))
    assert (read.left_tokens, read.node_left) == (0, False)


def test_a_node_that_was_split_after_it_left_is_known_by_its_slots(cache):
    """The front part has a new id, which nobody saw leaving; the backup wrote the slots as one node, and that left."""
    cache.backup(7, (0, 300))
    cache.demote(7, 300)
    assert cache.load(8, (0, 200)).node_left


def test_a_node_that_was_split_before_it_left_is_known_by_its_new_id(cache):
    cache.backup(7, (0, 300))
    cache.demote(7, 1)  # what is left of node 7
    cache.demote(8, 299)  # its front part
    read = cache.load(8, (0, 299))
    assert (read.node_left, read.left_tokens) == (True, 299)


def test_only_the_rest_of_a_split_node_leaving_is_not_enough(cache):
    cache.backup(7, (0, 300))
    cache.demote(7, 1)
    read = cache.load(8, (0, 299))
    assert (read.node_left, read.left_tokens) == (False, 1)


def test_blocks_read_again_without_having_left_again_are_told_so(cache):
    cache.backup(7, (0, 300))
    cache.demote(7, 300)
    cache.load(7, (0, 300))
    read = cache.load(7, (0, 300))
    assert (read.returned, read.node_left) == (True, False)


def test_blocks_that_left_again_may_be_read_again(cache):
    cache.backup(7, (0, 300))
    cache.demote(7, 300)
    cache.load(7, (0, 300))
    cache.demote(7, 300)
    read = cache.load(7, (0, 300))
    assert (read.returned, read.node_left) == (False, True)


def test_a_part_that_was_read_back_says_nothing_about_the_rest(cache):
    cache.backup(7, (0, 300))
    cache.demote(7, 300)
    cache.load(8, (0, 100))
    rest = cache.load(7, (100, 200))
    assert (rest.returned, rest.left_tokens, rest.node_left) == (False, 200, True)


def test_one_departure_does_not_account_for_two_backups(cache):
    cache.backup(1, (0, 100))
    cache.backup(2, (100, 100))
    cache.demote(3, 120)
    assert cache.load(2, (0, 200)).left_tokens == 120


def test_pages_from_storage_make_slots_unknown(cache):
    cache.backup(1, (0, 100))
    cache.known.filled_from_storage([(20, 30)], 5)
    assert cache.load(1, (0, 100)).known == 70


def test_a_backup_whose_slots_are_not_all_known_makes_all_unknown(cache):
    cache.backup(1, (0, 100))
    cache.known.forget_slots()
    assert cache.load(1, (0, 100)).known == 0
    assert cache.forgotten == {"slots": 100}


def test_a_reset_forgets_everything(cache):
    cache.backup(1, (0, 100))
    cache.demote(1, 100)
    cache.known.reset()
    read = cache.load(1, (0, 100))
    assert (read.known, read.node_left) == (0, False)


def test_a_backup_is_overwritten_when_its_last_slot_is(cache):
    first = cache.backup(1, (0, 100))
    cache.backup(2, (0, 60))
    assert cache.overwritten == []
    cache.backup(3, (60, 40))
    assert cache.overwritten == [(first.identifier, 3)]


def test_memory_is_bounded(cache, monkeypatch):
    monkeypatch.setattr(module, "MAX_INTERVALS", 10)
    monkeypatch.setattr(module, "MAX_NODES", 10)
    for node in range(30):
        cache.backup(node, (node * 10, 5))
        cache.demote(node, 5)
    assert cache.forgotten["nodes"] == 20
    assert cache.forgotten["slots"] == 2 * 11 * 5


class TestBlocksThatAreToldByTheirHostSlots:
    """Where an eviction names the slots that keep the copy, nothing has to be concluded from nodes or amounts."""

    def test_left_although_their_node_split_before_and_after(self, cache):
        cache.backup(1, (100, 300))
        cache.demote(7, 260, kept=[(100, 260)])  # the front part, under the id that the split gave it
        cache.demote(1, 40, kept=[(360, 40)])
        read = cache.load(20, (100, 299))  # the tail split once more when it was matched
        assert (read.node_left, read.left_tokens, read.known) == (True, 299, 299)
        assert not read.returned
        assert {node for node, _ in read.departures} == {1, 7}

    def test_that_were_not_among_them_have_not_left(self, cache):
        cache.backup(1, (100, 300))
        cache.demote(7, 260, kept=[(100, 260)])
        read = cache.load(20, (100, 300))
        assert (read.node_left, read.left_tokens) == (False, 260)

    def test_that_came_back_have_not_left_until_they_leave_again(self, cache):
        cache.backup(1, (100, 50))
        cache.demote(1, 50, kept=[(100, 50)])
        assert cache.load(1, (100, 50)).node_left
        again = cache.load(1, (100, 50))
        assert (again.node_left, again.left_tokens, again.returned) == (False, 0, True)
        cache.demote(1, 50, kept=[(100, 50)])
        third = cache.load(1, (100, 50))
        assert (third.node_left, third.left_tokens, third.returned) == (True, 50, False)

    def test_of_others_say_nothing_of_ours(self, cache):
        cache.backup(1, (100, 50))
        cache.backup(2, (500, 50))
        cache.demote(2, 50, kept=[(500, 50)])
        read = cache.load(1, (100, 50))
        assert (read.node_left, read.left_tokens) == (False, 0)

    def test_backed_up_anew_are_on_the_device(self, cache):
        cache.backup(1, (100, 50))
        cache.demote(1, 50, kept=[(100, 50)])
        cache.backup(3, (100, 50))
        assert cache.load(3, (100, 50)).left_tokens == 0
