"""Every step of the PCIe totals says whether it is exact, quiet, unsafe or a new beginning."""

from hypothesis import given
from hypothesis import strategies as st

from hicache_exporter.core.pcie_link import WRAP, link_bytes_per_second, wrap_ns
from hicache_exporter.core.pcie_meter import QUIET_BYTES, Gap, PcieMeter, Rest
from hicache_exporter.core.pcie_pace import Pace

MS = 1_000_000
GEN5 = wrap_ns(5, 16)


def metered(wrap=GEN5):
    meter = PcieMeter(wrap)
    meter.begin(0, WRAP - 10)
    return meter


def test_generation_5_with_16_lanes_wraps_in_67_ms_and_half_the_lanes_take_twice_as_long():
    assert round(GEN5 / MS) == 67
    assert round(wrap_ns(5, 8) / GEN5, 3) == 2
    assert link_bytes_per_second(5, 16) == 64e9


def test_an_unknown_link_is_taken_for_the_fastest():
    assert wrap_ns(None, None) == wrap_ns(6, 16) < GEN5


def test_the_first_reading_is_a_new_beginning_without_bytes():
    meter = PcieMeter(GEN5, total=5)
    assert (meter.begin(0, 111), meter.total) == (Gap.BREAK, 5)


def test_a_new_base_adds_nothing_and_keeps_the_total():
    meter = PcieMeter(GEN5, total=1000)
    meter.begin(0, 4_000_000_000)
    meter.advance(1, 2, 4_000_000_010)
    meter.begin(3, 5)
    meter.advance(4, 5, 6)
    assert meter.total == 1011


@given(
    st.lists(
        st.tuples(st.integers(min_value=1, max_value=GEN5 - 300_000), st.floats(min_value=0, max_value=1)), max_size=40
    )
)
def test_readings_within_the_wrap_time_are_exact_at_any_rate_the_link_can_carry(gaps):
    meter = PcieMeter(GEN5)
    now, true = 0, 3_999_999_999
    meter.begin(now, true)
    for gap_ns, share in gaps:
        now += gap_ns
        true += int(64 * gap_ns * share)
        assert meter.advance(now, now + 300_000, true % WRAP) is Gap.EXACT
    assert meter.total == true - 3_999_999_999


@given(wraps=st.integers(min_value=0, max_value=50), rest=st.integers(min_value=0, max_value=WRAP - 1))
def test_a_missed_wrap_is_undercounted_never_overcounted(wraps, rest):
    meter = PcieMeter(GEN5)
    meter.begin(0, 7)
    meter.advance(1000 * MS, 1000 * MS, (7 + wraps * WRAP + rest) % WRAP)
    assert meter.total == rest


def test_a_timer_that_slips_past_the_wrap_time_leaves_an_unsafe_gap_and_a_lower_bound():
    meter = metered()
    assert (meter.advance(80 * MS, 80 * MS + 300_000, 90), meter.total) == (Gap.UNSAFE, 100)


def test_the_time_of_the_call_itself_counts_as_part_of_the_gap():
    assert metered().advance(GEN5 - 1 * MS, GEN5, 90) is Gap.EXACT
    assert metered().advance(GEN5 - 1 * MS, GEN5 + 1, 90) is Gap.UNSAFE


RESTED = Rest(planned_ns=1000 * MS, active_since_ns=None)


def test_a_planned_rest_in_which_nothing_moved_is_quiet():
    assert metered().advance(1000 * MS, 1000 * MS + 300_000, 90, RESTED) is Gap.QUIET


def test_a_rest_with_more_bytes_than_an_idle_link_shows_is_unsafe():
    reading = WRAP - 10 + QUIET_BYTES
    assert metered().advance(1000 * MS, 1000 * MS, reading % WRAP, RESTED) is Gap.QUIET
    assert metered().advance(1000 * MS, 1000 * MS, (reading + 1) % WRAP, RESTED) is Gap.UNSAFE


def test_a_rest_cut_short_by_an_active_engine_may_show_what_the_link_can_carry_since():
    moved = int(64 * 40 * MS)
    reading, early = (moved - 10) % WRAP, metered()
    assert early.advance(500 * MS, 500 * MS, reading, Rest(500 * MS, 455 * MS)) is Gap.QUIET
    assert early.total == moved
    assert metered().advance(500 * MS, 500 * MS, reading, Rest(500 * MS, 480 * MS)) is Gap.UNSAFE


def test_a_gpu_that_is_read_later_than_the_first_may_show_what_passed_meanwhile():
    moved, meter = int(64 * 44 * MS), metered()
    assert meter.advance(504 * MS, 504 * MS, (moved - 10) % WRAP, Rest(500 * MS, 460 * MS)) is Gap.QUIET
    assert meter.total == moved


def test_a_rest_that_lasts_longer_than_planned_is_unsafe():
    assert metered().advance(1100 * MS, 1100 * MS, 90, RESTED) is Gap.UNSAFE


def test_a_watch_that_looked_too_late_makes_the_rest_unsafe():
    assert metered().advance(500 * MS, 500 * MS, 90, Rest(500 * MS, 500 * MS - GEN5 - 1)) is Gap.UNSAFE


def test_under_load_each_direction_has_its_turn_well_within_the_wrap_of_any_link():
    assert Pace(GEN5).turn_ns == 20 * MS
    for generation in range(1, 7):
        wrap = wrap_ns(generation, 16)
        assert 2 * Pace(wrap).turn_ns <= 0.6 * wrap


def test_at_rest_no_wrap_fits_between_two_looks():
    assert Pace(GEN5).look_ns < GEN5
    assert Pace(wrap_ns(1, 1)).look_ns <= Pace.IDLE_NS
