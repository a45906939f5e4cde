"""The window query: bytes on the bus between two moments, or why they can't be known."""

from hicache_exporter.core.pcie_meter import Gap, Sample
from hicache_exporter.core.pcie_window import window

MS = 1_000_000


def direction(steps, gaps=None, every_ns=20 * MS, offset_ns=0):
    """The samples of one direction, newest first, from the bytes that each gap adds."""
    samples, total = [], 0
    for i, step in enumerate(steps):
        total += step
        at_ns = i * every_ns + offset_ns
        samples.append(Sample(at_ns, at_ns + 300_000, total, (gaps or {}).get(i, Gap.EXACT)))
    return samples[::-1]


def history(count=600, transfer_at=500, transfer_bytes=2_000_000_000, gaps=None):
    """One sample of both directions every 20 ms, 10 kB each way per gap, one host-to-device transfer."""
    received = [10_000 + (transfer_bytes if i == transfer_at else 0) for i in range(count)]
    return direction([10_000] * count, gaps), direction(received, gaps)


def test_the_bytes_of_a_transfer_are_found_with_the_quiet_rate_beside_them():
    found = window(*history(), 499 * 20 * MS + 5 * MS, 500 * 20 * MS - 5 * MS)
    assert found.usable
    assert found.moved.rx == 2_000_010_000
    assert found.moved.tx == 10_000
    assert round(found.baseline.rx / 10_000) == 1
    assert found.slack_ns == 20 * MS + 300_000 - 10 * MS


def test_a_window_elsewhere_shows_only_the_quiet_traffic():
    found = window(*history(), 550 * 20 * MS + 1 * MS, 560 * 20 * MS - 1 * MS)
    assert found.moved.rx == 100_000


def test_an_earlier_transfer_does_not_move_the_quiet_rate():
    quiet = window(*history(transfer_bytes=0), 590 * 20 * MS, 595 * 20 * MS)
    after = window(*history(), 590 * 20 * MS, 595 * 20 * MS)
    assert after.baseline == quiet.baseline


def test_a_sample_taken_while_the_window_opened_does_not_start_it():
    during_call = 499 * 20 * MS + 100_000
    assert window(*history(), during_call, 500 * 20 * MS - 5 * MS).moved.rx == 2_000_020_000


def test_a_sample_taken_while_the_window_closed_does_not_end_it():
    during_call = 500 * 20 * MS + 100_000
    assert window(*history(), 499 * 20 * MS + 5 * MS, during_call).moved.rx == 2_000_020_000


def test_an_unsafe_gap_inside_makes_it_unusable_but_keeps_the_lower_bound():
    found = window(*history(gaps={500: Gap.UNSAFE}), 499 * 20 * MS + 5 * MS, 500 * 20 * MS - 5 * MS)
    assert not found.usable
    assert found.why_not == "a counter may have wrapped unseen"
    assert found.moved.rx == 2_000_010_000


def test_unsafe_gaps_outside_do_no_harm():
    found = window(*history(gaps={499: Gap.UNSAFE, 501: Gap.BREAK}), 499 * 20 * MS + 5 * MS, 500 * 20 * MS - 5 * MS)
    assert found.usable


def test_a_quiet_gap_is_usable():
    assert window(*history(gaps={500: Gap.QUIET}), 499 * 20 * MS + 5 * MS, 500 * 20 * MS - 5 * MS).usable


def test_a_restarted_probe_makes_it_unusable():
    found = window(*history(gaps={505: Gap.BREAK}), 499 * 20 * MS + 5 * MS, 510 * 20 * MS)
    assert (found.usable, found.why_not) == (False, "the probe began anew in the window")


def test_asked_too_early_or_too_late_it_says_so():
    assert window(*history(), 590 * 20 * MS, 700 * 20 * MS).why_not == "no sample after the window yet"
    assert window([], [], 0, 1).why_not == "no sample after the window yet"
    assert window(*history(), -5, 10 * MS).why_not == "the window lies before the history"


def test_counters_that_never_moved_witness_nothing():
    still = direction([0] * 100)
    found = window(still, still, 50 * 20 * MS + 1 * MS, 60 * 20 * MS)
    assert (found.usable, found.why_not, found.moved) == (False, "the counters have never moved", None)


def test_without_enough_samples_before_it_there_is_no_quiet_rate():
    found = window(*history(count=600), 1 * 20 * MS + 1 * MS, 3 * 20 * MS)
    assert found.usable
    assert found.baseline is None


def test_back_to_back_transfers_are_not_taken_for_the_quiet_rate():
    received = direction([10_000 if i % 5 == 0 else 1_000_000_000 for i in range(600)])
    assert window(direction([1] * 600), received, 550 * 20 * MS + 1 * MS, 560 * 20 * MS).baseline.rx < 1_000_000


def test_only_a_window_without_a_rest_is_exact():
    inside = 499 * 20 * MS + 5 * MS, 500 * 20 * MS - 5 * MS
    assert window(*history(), *inside).exact
    rested = window(*history(gaps={500: Gap.QUIET}), *inside)
    assert (rested.usable, rested.exact) == (True, False)


def in_turn(count=300, transfer_at=250, sent=0, received=0):
    """Read in turn: each direction every 40 ms, tx 20 ms after rx, 10 kB a gap; a transfer each way in one gap."""
    tx = direction([10_000 + (sent if i == transfer_at else 0) for i in range(count)], None, 40 * MS, 20 * MS)
    rx = direction([10_000 + (received if i == transfer_at else 0) for i in range(count)], None, 40 * MS)
    return tx, rx


def test_directions_read_in_turn_are_each_bracketed_by_their_own_samples():
    """The window lies between two readings of each, 9960 to 10000 ms of rx and 9980 to 10020 ms of tx."""
    found = window(*in_turn(sent=3_000_000_000, received=2_000_000_000), 9_985 * MS, 9_995 * MS)
    assert (found.usable, found.exact) == (True, True)
    assert found.moved == (3_000_010_000, 2_000_010_000)
    assert (round(found.baseline.tx / 100), round(found.baseline.rx / 100)) == (101, 101)  # 40.3 ms of 40
    assert found.slack_ns == 40 * MS + 300_000 - 10 * MS


def test_a_window_between_the_readings_of_the_two_takes_another_pair_of_each():
    """From 9970 to 9990 ms: rx from its reading at 9960 to that at 10000, tx from 9940 to 10020."""
    found = window(*in_turn(), 9_970 * MS, 9_990 * MS)
    assert found.moved == (20_000, 10_000)
    assert found.slack_ns == 80 * MS + 300_000 - 20 * MS


def test_a_window_is_closed_only_when_both_directions_were_read_after_it():
    tx, rx = in_turn()
    last_of_rx = rx[0].before_ns
    assert window(tx, rx, 9_000 * MS, last_of_rx).usable
    assert window(tx, rx, 9_000 * MS, last_of_rx + 10 * MS).why_not == "no sample after the window yet"
    assert window(tx[1:], rx, 9_000 * MS, last_of_rx).why_not == "no sample after the window yet"


def test_an_unsafe_gap_of_either_direction_makes_the_window_unusable():
    tx, rx = in_turn()
    late = [sample._replace(gap=Gap.UNSAFE) for sample in rx]
    for sides in ((tx, late), (late, rx)):
        found = window(*sides, 9_985 * MS, 9_995 * MS)
        assert (found.usable, found.why_not) == (False, "a counter may have wrapped unseen")
