"""The window query: bytes on the bus between two moments, or why they can't be known."""

from hicache_exporter.core.pcie_meter import Gap, Sample
from hicache_exporter.core.pcie_window import window

MS = 1_000_000


def history(count=600, transfer_at=500, transfer_bytes=2_000_000_000, gaps=None):
    """One sample every 20 ms, 10 kB each way per gap, one host-to-device transfer; newest first."""
    samples, tx, rx = [], 0, 0
    for i in range(count):
        tx, rx = tx + 10_000, rx + 10_000 + (transfer_bytes if i == transfer_at else 0)
        samples.append(Sample(i * 20 * MS, i * 20 * MS + 300_000, tx, rx, (gaps or {}).get(i, Gap.EXACT)))
    return samples[::-1]


def test_the_bytes_of_a_transfer_are_found_with_the_quiet_rate_beside_them():
    found = window(history(), 499 * 20 * MS + 5 * MS, 500 * 20 * MS - 5 * MS)
    assert found.usable
    assert found.moved.rx == 2_000_010_000
    assert found.moved.tx == 10_000
    assert round(found.baseline.rx / 10_000) == 1
    assert found.slack_ns == 20 * MS + 300_000 - 10 * MS


def test_a_window_elsewhere_shows_only_the_quiet_traffic():
    found = window(history(), 550 * 20 * MS + 1 * MS, 560 * 20 * MS - 1 * MS)
    assert found.moved.rx == 100_000


def test_an_earlier_transfer_does_not_move_the_quiet_rate():
    quiet = window(history(transfer_bytes=0), 590 * 20 * MS, 595 * 20 * MS)
    after = window(history(), 590 * 20 * MS, 595 * 20 * MS)
    assert after.baseline == quiet.baseline


def test_a_sample_taken_while_the_window_opened_does_not_start_it():
    during_call = 499 * 20 * MS + 100_000
    assert window(history(), during_call, 500 * 20 * MS - 5 * MS).moved.rx == 2_000_020_000


def test_a_sample_taken_while_the_window_closed_does_not_end_it():
    during_call = 500 * 20 * MS + 100_000
    assert window(history(), 499 * 20 * MS + 5 * MS, during_call).moved.rx == 2_000_020_000


def test_an_unsafe_gap_inside_makes_it_unusable_but_keeps_the_lower_bound():
    found = window(history(gaps={500: Gap.UNSAFE}), 499 * 20 * MS + 5 * MS, 500 * 20 * MS - 5 * MS)
    assert not found.usable
    assert found.why_not == "a counter may have wrapped unseen"
    assert found.moved.rx == 2_000_010_000


def test_unsafe_gaps_outside_do_no_harm():
    found = window(history(gaps={499: Gap.UNSAFE, 501: Gap.BREAK}), 499 * 20 * MS + 5 * MS, 500 * 20 * MS - 5 * MS)
    assert found.usable


def test_a_quiet_gap_is_usable():
    assert window(history(gaps={500: Gap.QUIET}), 499 * 20 * MS + 5 * MS, 500 * 20 * MS - 5 * MS).usable


def test_a_restarted_probe_makes_it_unusable():
    found = window(history(gaps={505: Gap.BREAK}), 499 * 20 * MS + 5 * MS, 510 * 20 * MS)
    assert (found.usable, found.why_not) == (False, "the probe began anew in the window")


def test_asked_too_early_or_too_late_it_says_so():
    assert window(history(), 590 * 20 * MS, 700 * 20 * MS).why_not == "no sample after the window yet"
    assert window([], 0, 1).why_not == "no sample after the window yet"
    assert window(history(), -5, 10 * MS).why_not == "the window lies before the history"


def test_counters_that_never_moved_witness_nothing():
    still = [Sample(i * 20 * MS, i * 20 * MS + 1, 0, 0, Gap.EXACT) for i in range(100)][::-1]
    found = window(still, 50 * 20 * MS + 1 * MS, 60 * 20 * MS)
    assert (found.usable, found.why_not, found.moved) == (False, "the counters have never moved", None)


def test_without_enough_samples_before_it_there_is_no_quiet_rate():
    found = window(history(count=600), 1 * 20 * MS + 1 * MS, 3 * 20 * MS)
    assert found.usable
    assert found.baseline is None


def test_back_to_back_transfers_are_not_taken_for_the_quiet_rate():
    samples, rx = [], 0
    for i in range(600):
        rx += 10_000 if i % 5 == 0 else 1_000_000_000
        samples.append(Sample(i * 20 * MS, i * 20 * MS + 1, 1, rx, Gap.EXACT))
    assert window(samples[::-1], 550 * 20 * MS + 1 * MS, 560 * 20 * MS).baseline.rx < 1_000_000


def test_only_a_window_without_a_rest_is_exact():
    inside = 499 * 20 * MS + 5 * MS, 500 * 20 * MS - 5 * MS
    assert window(history(), *inside).exact
    rested = window(history(gaps={500: Gap.QUIET}), *inside)
    assert (rested.usable, rested.exact) == (True, False)
