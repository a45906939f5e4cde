"""Ladders of lengths and of concurrency, on an engine that computes in proportion to what it has not cached."""

from __future__ import annotations

import signal
import threading

import pytest

from hicache_proof.lab import client, climb
from hicache_proof.lab.errors import CannotRunError

from . import fake_engine
from .fake_engine import FakeEngine

CHANCE = 500e-6  # five tokens: a question may begin as an earlier one did


class Clock:
    """Stands still but while somebody sleeps, which takes no time: what a busy machine adds is not measured."""

    def __init__(self):
        self._now_ns = 10**13

    def monotonic_ns(self):
        return self._now_ns

    def monotonic(self):
        return self._now_ns / 1e9

    def sleep(self, seconds):
        self._now_ns += round(seconds * 1e9)


@pytest.fixture
def exact(monkeypatch):
    """The engine's clock and the lab's: of one request at a time both are exact."""
    clock = Clock()
    for module in (fake_engine, client, climb):
        monkeypatch.setattr(module, "time", clock)


def slow(seconds_per_token=100e-6, **how):
    return FakeEngine(host=16384, seconds_per_token=seconds_per_token, **how)


def saved(run):
    return [rung.effect.saved_seconds for rung in run.lengths.rungs]


@pytest.mark.usefixtures("exact")
def test_reads_that_save_work_at_every_length_say_so(run_of):
    run = run_of(slow(), "--ladder", "400,100,200", "--repetitions", "2")
    assert [rung.prefix_tokens for rung in run.lengths.rungs] == [100, 200, 400]
    assert all((rung.from_host, rung.proven) == (rung.requests, rung.requests) for rung in run.lengths.rungs)
    assert saved(run) == pytest.approx([0.010, 0.020, 0.040], abs=CHANCE)
    assert run.lengths.break_even.says == "always"
    assert run.concurrency is None


@pytest.mark.usefixtures("exact")
def test_reads_that_cost_more_than_computing_never_break_even(run_of):
    run = run_of(slow(seconds_per_read=0.06), "--ladder", "50,100", "--repetitions", "2")
    assert saved(run) == pytest.approx([-0.055, -0.050], abs=CHANCE)
    assert run.lengths.break_even.says == "never"
    assert "Break-even not reached" in run.lengths.break_even.sentence


def test_several_at_once_are_all_read_and_their_throughput_counted(run_of):
    engine = slow(seconds_per_token=1e-3)  # more than a busy machine takes to start a thread
    run = run_of(engine, "--concurrency", "4,1,2", "--repetitions", "2")
    assert [rung.at_once for rung in run.concurrency.rungs] == [1, 2, 4]
    assert [rung.requests for rung in run.concurrency.rungs] == [2, 4, 8]
    assert all(rung.from_host == rung.requests for rung in run.concurrency.rungs)
    assert len({rung.prefix_tokens for rung in run.concurrency.rungs}) == 1
    assert run.concurrency.rungs[2].read_tokens_per_second > run.concurrency.rungs[2].miss_tokens_per_second
    assert engine.most_at_once == 4
    assert next(check.state for check in run.checks if check.name == "traffic") == "passed"


def test_a_rung_that_was_not_read_from_l2_gives_no_figure(run_of):
    run = run_of(slow(threshold=200), "--prefix-tokens", "300", "--ladder", "100,300", "--repetitions", "2")
    short, long = run.lengths.rungs
    assert (short.from_host, short.effect.says) == (0, "refused")
    assert long.from_host == long.requests
    assert run.lengths.break_even.sentence.endswith("requests were served from L2.")


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (("--ladder", "100,900"), "--ladder: a prefix of 900 tokens does not fit: this engine takes 32 to"),
        (("--ladder", "8"), "--ladder: a prefix of 8 tokens does not fit"),
        (("--ladder", "100,200,300,400", "--repetitions", "3"), "--ladder: the rungs and their eviction load write"),
        (("--concurrency", "64"), "--concurrency: 64 prompts at once leave a prefix of"),
        (("--ladder", "100", "--skip-eviction"), "can't be combined with --skip-eviction"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_rungs_that_do_not_fit_are_refused_before_the_first_series(ask, options, says):
    engine = FakeEngine()
    result = ask(engine, *options)
    assert result.exit_code == 2
    assert says in result.stderr
    assert len(engine.bodies) <= 1, "the probe"


@pytest.mark.parametrize("value", ["", "1,,2", "a", "0", "-1", "1.5"])
def test_what_is_not_a_list_of_whole_numbers_is_refused(ask, value):
    result = ask(FakeEngine(), "--ladder", value)
    assert result.exit_code == 2
    assert "not a list of whole numbers" in result.stderr


def test_a_dry_run_shows_the_rungs(ask):
    engine = FakeEngine(host=16384)
    result = ask(engine, "--ladder", "100,200", "--concurrency", "1,2", "--dry-run")
    assert result.exit_code == 0, result.output
    assert "100, 200; each 3 times" in result.stdout
    assert not engine.bodies


class Hanging:
    """An engine that answers nobody before the gate opens."""

    def __init__(self):
        self.gate = threading.Event()

    def send(self, _prompt):
        self.gate.wait(10)
        raise CannotRunError("gone")


def test_ctrl_c_waits_for_no_answer():
    engine = Hanging()
    main = threading.get_ident()
    timer = threading.Timer(0.05, lambda: signal.pthread_kill(main, signal.SIGINT))
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        climb._send(engine, [(1,), (2,)])
    hung = [thread for thread in threading.enumerate() if isinstance(thread, climb._Sending)]
    assert len(hung) == 2
    assert all(thread.daemon for thread in hung), "the process can end"
    engine.gate.set()
    timer.join()


def test_the_first_failure_ends_the_rung():
    engine = Hanging()
    engine.gate.set()
    with pytest.raises(CannotRunError, match="gone"):
        climb._send(engine, [(1,), (2,)])
