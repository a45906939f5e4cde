"""The shared memory between probe and sidecar."""

import mmap

import pytest

from hicache_exporter.core.gpu_facts import GpuFacts, Snapshot
from hicache_exporter.core.pcie_meter import Gap, Sample
from hicache_exporter.sources import probe_board
from hicache_exporter.sources.probe_board import KEPT, SLOTS, Board


@pytest.fixture
def board():
    made = Board.create()
    yield made
    made.close()


def other_end(board):
    """A second mapping of the same memory, as the other process has it."""
    return Board(board.fd)


def test_what_one_process_writes_the_other_reads(board):
    probe = other_end(board)
    probe.beat(42, 3)
    probe.publish(Snapshot(state="ok", taken_ns=7, devices=(GpuFacts(uuid="GPU-a", power_watts=1.5),)))
    assert (board.heartbeat(), board.current_call()) == (42, 3)
    assert board.snapshot().devices[0].power_watts == 1.5
    assert board.snapshot().devices[0].energy_joules is None
    probe.beat(43)
    assert (board.heartbeat(), board.current_call()) == (43, probe_board.RESTING)


def test_before_the_first_report_there_is_none(board):
    assert board.snapshot() is None


def test_a_report_that_is_being_written_is_none(board):
    board.publish(Snapshot(state="ok", taken_ns=7))
    raw = mmap.mmap(board.fd, probe_board.SIZE)
    raw[probe_board._SNAPSHOT + 12] ^= 1
    assert board.snapshot() is None
    raw.close()


def test_a_report_too_long_for_its_room_is_refused(board):
    with pytest.raises(ValueError, match="at most"):
        board.publish(Snapshot(state="ok", taken_ns=7, detail="x" * (1 << 18)))


def test_a_device_keeps_its_area_over_probes(board):
    first, second = board.area("GPU-a"), board.area("GPU-b")
    assert first.number != second.number
    assert other_end(board).area("GPU-b").number == second.number
    assert [area.uuid for area in board.areas()] == ["GPU-a", "GPU-b"]


def test_when_all_areas_are_taken_a_further_device_gets_none(board):
    for number in range(probe_board.MAX_DEVICES):
        assert board.area(f"GPU-{number}") is not None
    assert board.area("GPU-one-too-many") is None


def sample(number, gap=Gap.EXACT):
    return Sample(number * 10, number * 10 + 1, number, gap)


def test_samples_come_back_newest_first(board):
    history = board.area("GPU-a").rx
    for number in range(5):
        history.append(*sample(number))
    assert list(other_end(board).area("GPU-a").rx.newest_first()) == [sample(number) for number in range(4, -1, -1)]
    assert history.latest() == sample(4)


def test_each_direction_of_each_device_has_a_history_of_its_own(board):
    areas = [board.area(f"GPU-{number}") for number in range(3)]
    histories = [history for area in areas for history in (area.tx, area.rx)]
    for number, history in enumerate(histories):
        for _ in range(SLOTS + number):
            history.append(*sample(number))
    assert [history.count - SLOTS for history in histories] == list(range(6))
    assert [set(history.newest_first()) for history in histories] == [{sample(number)} for number in range(6)]
    assert [area.uuid for area in board.areas()] == ["GPU-0", "GPU-1", "GPU-2"]


def test_history_is_bounded_and_the_oldest_slots_are_left_alone(board):
    history = board.area("GPU-a").tx
    for number in range(SLOTS + 100):
        history.append(*sample(number))
    kept = list(history.newest_first())
    assert len(kept) == KEPT
    assert kept[-1] == sample(SLOTS + 100 - KEPT)


def test_a_slot_that_was_overwritten_meanwhile_ends_the_history(board):
    history = board.area("GPU-a").tx
    for number in range(5):
        history.append(*sample(number))
    reader = history.newest_first()
    next(reader)
    for number in range(5, SLOTS + 4):  # goes once around while the reader is at its second sample
        history.append(*sample(number))
    assert list(reader) == []


def test_unsafe_gaps_and_new_beginnings_are_counted_but_not_the_first(board):
    area = board.area("GPU-a")
    for number, gap in enumerate((Gap.BREAK, Gap.EXACT, Gap.UNSAFE, Gap.QUIET, Gap.BREAK)):
        area.rx.append(*sample(number, gap))
    assert (area.rx.unsafe_gaps, area.tx.unsafe_gaps, area.unsafe_gaps) == (2, 0, 2)
    for number, gap in enumerate((Gap.BREAK, Gap.UNSAFE)):
        area.tx.append(*sample(number, gap))
    assert area.unsafe_gaps == 3


def test_holds_are_kept_by_device_and_by_index(board):
    board.area("GPU-a").hold_until_ns = 99
    board.hold_listing(3, 77)
    assert other_end(board).area("GPU-a").hold_until_ns == 99
    assert (board.listing_hold(3), board.listing_hold(4)) == (77, 0)
