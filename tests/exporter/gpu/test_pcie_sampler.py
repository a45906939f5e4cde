"""The sampler on a simulated bus and clock: exact under load, nearly asleep when idle, honest when it slipped."""

from hypothesis import example, given, settings
from hypothesis import strategies as st

from hicache_exporter.core.pcie_link import wrap_ns
from hicache_exporter.core.pcie_meter import Gap
from hicache_exporter.core.wrap32 import WRAP
from hicache_exporter.sources.pcie_counters import NotObservableError
from hicache_exporter.sources.pcie_sampler import Gauge, PcieSampler
from hicache_exporter.sources.probe_board import Board

MS = 1_000_000
SECOND = 1000 * MS
GEN5 = wrap_ns(5, 16)
FULL = 64  # bytes a nanosecond
IDLE = 0.0003
CALL_NS = 310_000


class Bus:
    """True 64-bit totals under bursts (start, end, bytes a nanosecond); a recorder notes a burst when it starts."""

    def __init__(self, bursts=(), recorded=True):
        self.bursts, self.recorded = bursts, recorded
        self.now_ns, self.wrap_ns, self.calls, self.fault = 0, GEN5, 0, None

    def rx(self):
        moved = sum(max(0, min(self.now_ns, end) - start) * rate for start, end, rate in self.bursts)
        return 4_000_000_000 + int(moved + self.now_ns * IDLE)

    def activity(self, _now_ns):
        return sum(self.now_ns >= start for start, _, _ in self.bursts) if self.recorded else 0

    def read(self):
        if self.fault:
            raise NotObservableError(self.fault)
        self.calls += 1
        before = self.now_ns
        rx = self.rx()
        self.now_ns += CALL_NS
        return before, self.now_ns, 0, rx % WRAP


def sleep(bus, pause, slips):
    slipped = sum(late for at, late in slips if bus.now_ns <= at < bus.now_ns + pause)
    bus.now_ns += pause + slipped


def run(bus, until_ns, slips=()):
    """Sample until then; ``slips`` maps a moment to how much later the sleep that covers it returns."""
    board = Board.create()
    base = bus.rx()
    gauge = Gauge(bus, board.area("GPU-a"))
    sampler = PcieSampler(board, bus.activity)
    sampler.add("GPU-a", gauge)
    while bus.now_ns < until_ns:
        pause, _ = sampler.step(bus.now_ns)
        sleep(bus, pause, slips)
        if sampler.resting:
            sampler.rest(pause, lambda pause: sleep(bus, pause, slips), lambda: bus.now_ns)
    sampler.step(bus.now_ns)
    samples = list(gauge.area.newest_first())
    unsafe = gauge.area.unsafe_gaps
    board.close()
    return samples, base, unsafe


def test_an_idle_gpu_is_read_once_a_second_and_no_gap_is_unsafe():
    samples, _, unsafe = run(Bus(), 62 * SECOND)
    after_the_start = [sample for sample in samples if sample.before_ns > 2 * SECOND]
    assert 55 <= len(after_the_start) <= 61
    assert unsafe == 0
    assert {sample.gap for sample in after_the_start} == {Gap.QUIET}


def test_an_idle_sampler_rests_until_the_next_reading_is_due_or_an_engine_writes():
    bus = Bus([(10 * SECOND + 333 * MS, 10 * SECOND + 400 * MS, FULL)])
    board = Board.create()
    sampler = PcieSampler(board, bus.activity)
    sampler.add("GPU-a", Gauge(bus, board.area("GPU-a")))
    woken = []
    while bus.now_ns < 10 * SECOND + 500 * MS:
        pause, _ = sampler.step(bus.now_ns)
        sleep(bus, pause, ())
        if sampler.resting:
            sampler.rest(pause, lambda pause: sleep(bus, pause, ()), lambda: bus.now_ns)
        woken.append(bus.now_ns)
    board.close()
    quiet = [at for at in woken if 3 * SECOND < at < 10 * SECOND]
    assert len(quiet) <= 16  # two a second: the reading, and the step after it
    assert any(10 * SECOND + 333 * MS <= at < 10 * SECOND + 333 * MS + GEN5 for at in woken)


def test_a_load_back_out_of_the_blue_is_counted_to_the_byte():
    start = 10 * SECOND + 333 * MS
    bus = Bus([(start, start + 37 * MS, 50)])
    samples, _, unsafe = run(bus, 13 * SECOND)
    during = [sample for sample in samples if start - 100 * MS < sample.before_ns < start + 200 * MS]
    assert unsafe == 0
    assert samples[0].rx > 37 * MS * 50
    assert len(during) >= 8


def test_under_load_it_reads_every_20_ms_and_calms_down_after_a_second():
    bus = Bus([(SECOND, 2 * SECOND, FULL)])
    samples, _, _ = run(bus, 6 * SECOND)
    busy = [sample for sample in samples if SECOND + 100 * MS < sample.before_ns < 2 * SECOND]
    rest = [sample for sample in samples if sample.before_ns > 3 * SECOND + 100 * MS]
    assert len(busy) >= 0.9 * 45
    assert len(rest) <= 4


bursts = st.lists(
    st.tuples(st.integers(0, 20 * SECOND), st.integers(1, 2 * SECOND), st.floats(0, FULL / 4)), max_size=4
).map(lambda found: [(start, start + length, rate) for start, length, rate in found])


@settings(max_examples=40, deadline=None)
@example([(0, 1_522_898_839, 0.03125)])  # too slow for a transfer, too fast for an idle link
@given(bursts)
def test_any_traffic_that_the_engine_records_is_summed_exactly(found):
    bus = Bus(found)
    samples, base, unsafe = run(bus, 23 * SECOND)
    assert unsafe == 0
    assert abs(samples[0].rx - (bus.rx() - base)) <= CALL_NS * FULL  # the clock ran on during the last call


@settings(max_examples=40, deadline=None)
@given(bursts, st.lists(st.tuples(st.integers(0, 20 * SECOND), st.integers(1, SECOND)), max_size=5))
def test_traffic_that_nobody_announces_and_late_timers_never_add_a_byte(found, slips):
    bus = Bus(found, recorded=False)
    samples, base, _ = run(bus, 23 * SECOND, slips)
    assert samples[0].rx <= bus.rx() - base
    totals = [sample.rx for sample in samples[::-1]]
    assert totals == sorted(totals)


def test_an_unannounced_burst_that_hides_a_wrap_is_flagged():
    bus = Bus([(SECOND + 500 * MS, SECOND + 900 * MS, FULL)], recorded=False)
    samples, base, unsafe = run(bus, 5 * SECOND)
    assert samples[0].rx < bus.rx() - base
    assert unsafe == 1


def test_a_slipped_timer_under_load_is_flagged():
    bus = Bus([(SECOND, 3 * SECOND, 30)])
    _, _, unsafe = run(bus, 3 * SECOND, slips=[(2 * SECOND, 200 * MS)])
    assert unsafe == 1


def test_a_slipped_timer_under_load_is_flagged_even_if_the_missed_wrap_leaves_no_trace():
    period = 20 * MS + CALL_NS  # a step sleeps 20 ms from its own start here, the call comes on top
    late = 400 * MS
    bus = Bus([(SECOND, 3 * SECOND, WRAP / (late + period))])
    samples, _, unsafe = run(bus, 3 * SECOND, slips=[(2 * SECOND, late)])
    (slipped,) = [sample for sample in samples if sample.gap is Gap.UNSAFE]
    before = samples[samples.index(slipped) + 1]
    assert slipped.rx - before.rx < 16 << 20
    assert unsafe == 1


def test_an_engine_that_records_keeps_the_sampler_awake_before_any_byte_moves():
    samples, _, _ = run(Bus([(5 * SECOND, 6 * SECOND, 0)]), 8 * SECOND)
    awake = [sample for sample in samples if 5 * SECOND < sample.before_ns < 6 * SECOND]
    assert len(awake) > 40


def test_one_gpu_that_fails_is_dropped_with_its_reason_and_the_other_goes_on():
    board = Board.create()
    good, bad = Bus(), Bus()
    sampler = PcieSampler(board, good.activity)
    sampler.add("GPU-a", Gauge(good, board.area("GPU-a")))
    sampler.add("GPU-b", Gauge(bad, board.area("GPU-b")))
    bad.fault = "lost"
    assert sampler.step(2 * SECOND)[1] == {"GPU-b": "lost"}
    assert sampler.step(4 * SECOND)[1] == {}
    assert (good.calls, bad.calls) == (3, 1)
    board.close()
