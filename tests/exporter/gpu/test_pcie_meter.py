"""Every step of the PCIe totals says whether it is exact, quiet, unsafe or a new beginning."""

from hypothesis import given
from hypothesis import strategies as st

from hicache_exporter.core.pcie_link import link_bytes_per_second, wrap_ns
from hicache_exporter.core.pcie_meter import QUIET_BYTES, Gap, PcieMeter
from hicache_exporter.core.pcie_pace import Pace
from hicache_exporter.core.wrap32 import WRAP

MS = 1_000_000
GEN5 = wrap_ns(5, 16)


def metered(wrap=GEN5):
    meter = PcieMeter(wrap)
    meter.begin(0, 300_000, 10, WRAP - 10)
    return meter


def test_generation_5_with_16_lanes_wraps_in_67_ms_and_half_the_lanes_take_twice_as_long():
    assert round(GEN5 / MS) == 67
    assert round(wrap_ns(5, 8) / GEN5, 3) == 2
    assert link_bytes_per_second(5, 16) == 64e9


def test_an_unknown_link_is_taken_for_the_fastest():
    assert wrap_ns(None, None) == wrap_ns(6, 16) < GEN5


def test_the_first_reading_is_a_new_beginning_without_bytes():
    sample = PcieMeter(GEN5, tx=5, rx=6).begin(0, 1, 111, 222)
    assert (sample.tx, sample.rx, sample.gap) == (5, 6, Gap.BREAK)


@given(
    st.lists(
        st.tuples(
            st.integers(min_value=1, max_value=GEN5 - 300_000),
            st.floats(min_value=0, max_value=1),
            st.floats(min_value=0, max_value=1),
        ),
        max_size=40,
    )
)
def test_readings_within_the_wrap_time_are_exact_at_any_rate_the_link_can_carry(gaps):
    meter = PcieMeter(GEN5)
    now, tx, rx = 0, 3_999_999_999, 17
    begin = meter.begin(now, now + 300_000, tx % WRAP, rx % WRAP)
    for gap_ns, tx_share, rx_share in gaps:
        now += gap_ns
        tx += int(64 * gap_ns * tx_share)
        rx += int(64 * gap_ns * rx_share)
        sample = meter.advance(now, now + 300_000, tx % WRAP, rx % WRAP)
        assert sample.gap is Gap.EXACT
    if gaps:
        assert (sample.tx - begin.tx, sample.rx - begin.rx) == (tx - 3_999_999_999, rx - 17)


def test_a_timer_that_slips_past_the_wrap_time_leaves_an_unsafe_gap_and_a_lower_bound():
    sample = metered().advance(80 * MS, 80 * MS + 300_000, 10, 90)
    assert (sample.gap, sample.tx, sample.rx) == (Gap.UNSAFE, 0, 100)


def test_the_time_of_the_call_itself_counts_as_part_of_the_gap():
    assert metered().advance(GEN5 - 1 * MS, GEN5 + 1, 10, 90).gap is Gap.UNSAFE


def test_a_planned_rest_in_which_nothing_moved_is_quiet():
    assert metered().advance(1000 * MS, 1000 * MS + 300_000, 10, 90, rested_ns=1000 * MS).gap is Gap.QUIET


def test_a_rest_with_more_bytes_than_an_idle_link_shows_is_unsafe():
    sample = metered().advance(1000 * MS, 1000 * MS, 10, WRAP - 10 + QUIET_BYTES + 1, rested_ns=1000 * MS)
    assert sample.gap is Gap.UNSAFE


def test_a_rest_cut_short_by_an_active_engine_may_show_what_the_link_can_carry_since():
    moved = int(64 * 40 * MS)
    early = metered().advance(500 * MS, 500 * MS, 10, (moved - 10) % WRAP, rested_ns=500 * MS, active_ns=45 * MS)
    assert early.gap is Gap.QUIET
    assert early.rx == moved
    too_much = metered().advance(500 * MS, 500 * MS, 10, (moved - 10) % WRAP, rested_ns=500 * MS, active_ns=20 * MS)
    assert too_much.gap is Gap.UNSAFE


def test_a_rest_that_lasts_longer_than_planned_is_unsafe():
    assert metered().advance(1100 * MS, 1100 * MS, 10, 90, rested_ns=1000 * MS).gap is Gap.UNSAFE


def test_a_watch_that_looked_too_late_makes_the_rest_unsafe():
    late = metered().advance(500 * MS, 500 * MS, 10, 90, rested_ns=500 * MS, active_ns=GEN5 + 1)
    assert late.gap is Gap.UNSAFE


def test_the_rhythm_fits_two_readings_into_a_wrap_and_never_exceeds_20_ms():
    assert Pace(GEN5).busy_ns == 20 * MS
    assert Pace(wrap_ns(6, 16)).busy_ns * 2 <= wrap_ns(6, 16)
    assert Pace(GEN5).look_ns < GEN5
    assert Pace(wrap_ns(1, 1)).look_ns <= Pace.IDLE_NS


def test_the_rhythm_stays_busy_for_a_second_after_the_last_stir():
    pace = Pace(GEN5)
    assert not pace.busy(1)
    pace.stir(5_000 * MS)
    assert pace.busy(5_999 * MS)
    assert not pace.busy(6_000 * MS)
