"""The sampler on a simulated bus and clock: exact under load, nearly asleep when idle, honest when it slipped."""

from itertools import pairwise

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from hicache_exporter.core.pcie_link import WRAP, wrap_ns
from hicache_exporter.core.pcie_meter import Gap
from hicache_exporter.core.pcie_window import window
from hicache_exporter.sources.pcie_counters import BOTH, RX, TX, NotObservableError
from hicache_exporter.sources.pcie_sampler import Gauge, PcieSampler
from hicache_exporter.sources.probe_board import Board

MS = 1_000_000
SECOND = 1000 * MS
GEN5 = wrap_ns(5, 16)
FULL = 64  # bytes a nanosecond
IDLE = 0.0003
CALL_NS = 310_000
DIRECTIONS = pytest.mark.parametrize("way", [TX, RX], ids=["tx", "rx"])


class Bus:
    """True 64-bit totals under bursts (start, end, bytes a nanosecond); a recorder notes a burst when it starts.

    Both directions carry the same bursts, each from a base of its own. ``calls``: the directions of each driver call.
    """

    def __init__(self, bursts=(), recorded=True):
        self.bursts, self.recorded = bursts, recorded
        self.now_ns, self.wrap_ns, self.calls, self.fault = 0, GEN5, [], None

    def total(self, way):
        moved = sum(max(0, min(self.now_ns, end) - start) * rate for start, end, rate in self.bursts)
        return (1_000_000_000, 4_000_000_000)[way] + int(moved + self.now_ns * IDLE)

    def activity(self, _now_ns):
        return sum(self.now_ns >= start for start, _, _ in self.bursts) if self.recorded else 0

    def read(self, which):
        ways = (TX, RX) if which == BOTH else (which,)
        if self.fault:
            raise NotObservableError(self.fault)
        self.calls.append(ways)
        before, totals = self.now_ns, [self.total(way) % WRAP for way in ways]
        self.now_ns += CALL_NS
        return before, self.now_ns, totals


class Sampling:
    """A sampler of one GPU on a simulated bus; ``slips`` maps a moment to how much later the sleep over it returns."""

    def __init__(self, bus, board, slips=()):
        self.bus, self.slips = bus, slips
        self.base = [bus.total(way) for way in (TX, RX)]
        self.area = board.area("GPU-a")
        self.sampler = PcieSampler(board, bus.activity)
        self.sampler.add("GPU-a", Gauge(bus, self.area))
        self.woken = []

    def sleep(self, seconds):
        until_ns = self.bus.now_ns + round(seconds * SECOND)
        self.bus.now_ns = until_ns + sum(late for at, late in self.slips if self.bus.now_ns <= at < until_ns)

    def run(self, until_ns, facts_ns=0):
        """Sample until then, and both directions once more. ``facts_ns``: what reading other facts takes, twice a
        second.
        """
        facts_at_ns = 0
        while self.bus.now_ns < until_ns:
            self.sampler.step(self.bus.now_ns)
            if self.bus.now_ns >= facts_at_ns:
                self.bus.now_ns += facts_ns
                facts_at_ns = self.bus.now_ns + SECOND // 2 if facts_ns else until_ns
            self.sampler.watch(facts_at_ns, self.sleep, lambda: self.bus.now_ns)
            self.woken.append(self.bus.now_ns)
        if self.sampler.resting:
            self.sampler._due_ns = 0
            self.sampler.step(self.bus.now_ns)
        else:
            self.sampler._sample_both(self.bus.now_ns)
        return self

    @property
    def unsafe(self):
        return self.area.tx.unsafe_gaps, self.area.rx.unsafe_gaps

    def samples(self, way, start_ns=-1, end_ns=1 << 62):
        history = (self.area.tx, self.area.rx)[way].newest_first()
        return [sample for sample in history if start_ns < sample.before_ns < end_ns]

    def missing(self, way):
        """Bytes that passed until the last reading and are not in the total; the clock ran on during its call."""
        return self.bus.total(way) - self.base[way] - self.samples(way)[0].total


@pytest.fixture
def board():
    made = Board.create()
    yield made
    made.close()


@pytest.fixture
def sampling(board):
    return lambda bus, slips=(): Sampling(bus, board, slips)


@DIRECTIONS
def test_an_idle_gpu_is_read_every_two_seconds_and_no_gap_is_unsafe(sampling, way):
    found = sampling(Bus()).run(62 * SECOND)
    after_the_start = found.samples(way, 2 * SECOND)
    assert 28 <= len(after_the_start) <= 32
    assert found.unsafe == (0, 0)
    assert {sample.gap for sample in after_the_start[1:]} == {Gap.QUIET}
    assert {len(ways) for ways in found.bus.calls[-25:]} == {2}, "one call for both"


def test_an_idle_sampler_rests_until_the_next_reading_is_due_or_an_engine_writes(sampling):
    start = 10 * SECOND + 333 * MS
    found = sampling(Bus([(start, start + 67 * MS, FULL)])).run(start + 200 * MS)
    assert len([at for at in found.woken if 3 * SECOND < at < 10 * SECOND]) <= 4
    assert any(start <= at < start + GEN5 for at in found.woken)


@DIRECTIONS
def test_a_load_back_out_of_the_blue_is_counted_to_the_byte_in_both_directions(sampling, way):
    start = 10 * SECOND + 333 * MS
    found = sampling(Bus([(start, start + 60 * MS, FULL)])).run(13 * SECOND)
    assert found.unsafe == (0, 0)
    assert found.missing(way) <= CALL_NS * IDLE + 1
    assert len(found.samples(way, start - 100 * MS, start + 200 * MS)) >= 4


def test_under_load_there_are_50_readings_a_second_of_one_direction_each_in_turn(sampling):
    found = sampling(Bus([(SECOND, 3 * SECOND, FULL)])).run(3 * SECOND)
    start, end = SECOND + 100 * MS, 2 * SECOND - 100 * MS
    ways = [sample.before_ns for way in (TX, RX) for sample in found.samples(way, start, end)]
    assert 39 <= len(set(ways)) <= 41
    alone = [ways[0] for ways in found.bus.calls if len(ways) == 1]
    assert alone[:6] == [RX, TX, RX, TX, RX, TX]
    assert sum(len(ways) == 2 for ways in found.bus.calls) <= 4, "and both only at the start, before it, and at the end"


@DIRECTIONS
def test_under_load_each_direction_is_read_every_40_ms_and_calms_down_within_two_seconds(sampling, way):
    found = sampling(Bus([(SECOND, 2 * SECOND, FULL)])).run(8 * SECOND)
    busy = found.samples(way, SECOND + 100 * MS, 2 * SECOND)
    gaps = [new.before_ns - old.before_ns for new, old in pairwise(busy)]
    assert max(gaps) <= 41 * MS
    assert {sample.gap for sample in busy} == {Gap.EXACT}
    assert len(found.samples(way, 4 * SECOND + 100 * MS)) <= 5


@pytest.mark.parametrize("facts_ms", [1, 7, 20])
def test_other_facts_that_are_read_between_cost_no_wrap(sampling, facts_ms):
    found = sampling(Bus([(SECOND, 5 * SECOND, FULL)])).run(6 * SECOND, facts_ns=facts_ms * MS)
    assert found.unsafe == (0, 0)
    assert found.missing(RX) <= CALL_NS * FULL


bursts = st.lists(
    st.tuples(st.integers(0, 20 * SECOND), st.integers(1, 2 * SECOND), st.floats(0, FULL / 4)), max_size=4
).map(lambda found: [(start, start + length, rate) for start, length, rate in found])


def simulated(bus, slips=()):
    board = Board.create()
    found = Sampling(bus, board, slips).run(23 * SECOND)
    seen = [found.samples(way) for way in (TX, RX)], [found.missing(way) for way in (TX, RX)], found.unsafe
    board.close()
    return seen


@settings(max_examples=40, deadline=None)
@example([(0, 1_522_898_839, 0.03125)])  # too slow for a transfer, too fast for an idle link
@given(bursts)
def test_any_traffic_that_the_engine_records_is_summed_exactly(found):
    _, missing, unsafe = simulated(Bus(found))
    assert unsafe == (0, 0)
    assert all(0 <= bytes_ <= CALL_NS * FULL for bytes_ in missing)


@settings(max_examples=40, deadline=None)
@given(bursts, st.lists(st.tuples(st.integers(0, 20 * SECOND), st.integers(1, SECOND)), max_size=5))
def test_traffic_that_nobody_announces_and_late_timers_never_add_a_byte(found, slips):
    samples, missing, _ = simulated(Bus(found, recorded=False), slips)
    assert min(missing) >= 0
    for history in samples:
        totals = [sample.total for sample in history[::-1]]
        assert totals == sorted(totals)


@settings(max_examples=40, deadline=None)
@given(bursts, st.lists(st.tuples(st.integers(0, 20 * SECOND), st.integers(1, SECOND)), max_size=5))
def test_a_byte_is_missing_only_where_a_gap_is_counted_as_unsafe(found, slips):
    _, missing, unsafe = simulated(Bus(found), slips)
    for lost, gaps in zip(missing, unsafe, strict=True):
        assert gaps or lost <= CALL_NS * FULL


@DIRECTIONS
def test_an_unannounced_burst_that_hides_a_wrap_is_flagged(sampling, way):
    found = sampling(Bus([(2 * SECOND + 500 * MS, 2 * SECOND + 900 * MS, FULL)], recorded=False)).run(6 * SECOND)
    assert found.missing(way) >= WRAP
    assert found.unsafe == (1, 1)


def test_a_slipped_timer_under_load_is_flagged_once_for_each_direction(sampling):
    found = sampling(Bus([(SECOND, 3 * SECOND, 30)]), slips=[(2 * SECOND + 505 * MS, 200 * MS)]).run(3 * SECOND)
    assert found.unsafe == (1, 1)


def test_a_slip_that_only_one_direction_can_have_wrapped_in_is_flagged_for_that_one(sampling):
    """40 ms late: 80 ms since the last reading of the direction whose turn it was, and 60 since that of the other."""
    found = sampling(Bus([(SECOND, 3 * SECOND, FULL)]), slips=[(2 * SECOND + 505 * MS, 40 * MS)]).run(3 * SECOND)
    assert sorted(found.unsafe) == [0, 1]


def test_a_cadence_too_slow_for_the_link_misses_wraps_and_every_gap_says_so(sampling):
    """The negative control: each direction every 80 ms on a link that wraps in 67."""
    found = sampling(Bus([(SECOND, 4 * SECOND, FULL)]))
    found.sampler._pace.turn_ns = 40 * MS
    found.run(4 * SECOND)
    during = found.samples(RX, SECOND + 200 * MS, 4 * SECOND)
    alone = [sample for sample in during if sample.gap is not Gap.EXACT]
    assert len(alone) > 30
    assert {sample.gap for sample in alone} == {Gap.UNSAFE}
    assert found.missing(RX) > 30 * WRAP


def test_a_slipped_timer_under_load_is_flagged_even_if_the_missed_wrap_leaves_no_trace(sampling):
    late = 400 * MS
    slip = [(2 * SECOND + 505 * MS, late)]
    plain = sampling(Bus([(SECOND, 4 * SECOND, 1)]), slips=slip).run(4 * SECOND)
    slipped = next(sample for sample in plain.samples(RX) if sample.gap is Gap.UNSAFE)
    before = next(sample for sample in plain.samples(RX) if sample.before_ns < slipped.before_ns)
    rate = WRAP / (slipped.before_ns - before.before_ns)
    other = Board.create()
    found = Sampling(Bus([(SECOND, 4 * SECOND, rate)]), other, slip).run(4 * SECOND)
    (traceless,) = [sample for sample in found.samples(RX) if sample.gap is Gap.UNSAFE]
    older = next(sample for sample in found.samples(RX) if sample.before_ns < traceless.before_ns)
    assert traceless.total - older.total < 16 << 20
    assert found.missing(RX) >= WRAP - (16 << 20)
    other.close()


def test_an_engine_that_records_keeps_the_sampler_awake_before_any_byte_moves(sampling):
    found = sampling(Bus([(5 * SECOND, 6 * SECOND, 0)])).run(8 * SECOND)
    awake = [sample for way in (TX, RX) for sample in found.samples(way, 5 * SECOND, 6 * SECOND)]
    assert len(awake) > 40


def test_the_window_of_a_load_back_shows_its_bytes_in_both_directions(sampling):
    start = 10 * SECOND + 333 * MS
    found = sampling(Bus([(start, start + 37 * MS, 50)])).run(13 * SECOND)
    seen = window(found.samples(TX), found.samples(RX), start, start + 37 * MS)
    assert seen.usable
    for moved, quiet in zip(seen.moved, seen.baseline, strict=True):
        assert moved - quiet == pytest.approx(37 * MS * 50, rel=1e-4)


def test_one_gpu_that_fails_is_dropped_with_its_reason_and_the_other_goes_on(board):
    good, bad = Bus(), Bus()
    sampler = PcieSampler(board, good.activity)
    sampler.add("GPU-a", Gauge(good, board.area("GPU-a")))
    sampler.add("GPU-b", Gauge(bad, board.area("GPU-b")))
    bad.fault = "lost"
    sampler.resting = True
    assert sampler.step(2 * SECOND) == {"GPU-b": "lost"}
    assert sampler.step(2 * SECOND) == {}
    assert (len(good.calls), len(bad.calls)) == (2, 1)


def test_one_gpu_that_fails_under_load_is_dropped_with_its_reason(board):
    good, bad = Bus(), Bus()
    sampler = PcieSampler(board, good.activity)
    sampler.add("GPU-a", Gauge(good, board.area("GPU-a")))
    sampler.add("GPU-b", Gauge(bad, board.area("GPU-b")))
    sampler.step(0)
    bad.fault = "lost"
    assert sampler.watch(0, lambda _: None, lambda: good.now_ns) == {"GPU-b": "lost"}
    assert sampler.watch(0, lambda _: None, lambda: good.now_ns) == {}
    assert good.calls[-2:] == [(RX,), (TX,)]


def test_on_the_way_to_rest_both_directions_are_read_at_once(sampling):
    found = sampling(Bus()).run(SECOND + 500 * MS)
    sent, received = (
        {sample.before_ns for sample in found.samples(way, SECOND, SECOND + 100 * MS)} for way in (TX, RX)
    )
    assert sent == received
    assert len(sent) == 1
