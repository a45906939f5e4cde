"""Two results side by side: which is worse, what may be compared, and what differs."""

from __future__ import annotations

import itertools
import json
from typing import Any, get_args

import pytest

from hicache_proof.compare.comparison import BEST_TO_WORST, Comparison, compare
from hicache_proof.compare.side import read
from hicache_proof.verdict import Verdict
from hicache_proof.verify import UnreadableError

from .reports import ENGINE, encoded, issued, run


def of(a: dict[str, Any], b: dict[str, Any]) -> Comparison:
    return compare(read(encoded(a)), read(encoded(b)))


def test_every_verdict_has_a_place() -> None:
    assert set(BEST_TO_WORST) == set(get_args(Verdict))


@pytest.mark.parametrize(("a", "b"), list(itertools.product(BEST_TO_WORST, repeat=2)))
def test_b_is_worse_if_its_verdict_stands_later_in_the_list(a: str, b: str) -> None:
    found = of(run(outcome={"verdict": a}), run(outcome={"verdict": b}))
    assert found.worse is (BEST_TO_WORST.index(b) > BEST_TO_WORST.index(a))
    assert found.sentence.startswith("B is worse" if found.worse else "B is no worse" if a == b else "B is better")


def test_a_verdict_of_a_later_release_is_taken_for_the_worst() -> None:
    assert of(run(outcome={"verdict": "contradicted"}), run(outcome={"verdict": "unheard"})).worse


@pytest.mark.parametrize(
    ("a", "b", "worse"),
    [("intact", "damaged", True), ("damaged", "damaged", False), ("intact", "not_checked", False)],
)
def test_damage_is_worse_whatever_the_verdict(a: str, b: str, worse: bool) -> None:
    assert of(run(outcome={"content": a}), run(outcome={"content": b})).worse is worse


def test_times_are_compared_series_by_series_with_intervals() -> None:
    found = of(run(), run(read=(0.200, 0.201, 0.202)))
    by_series = {times.series: times for times in found.times}
    assert by_series["A"].change is not None
    assert by_series["A"].change.says == "no_difference"
    read_back = by_series["C"].change
    assert read_back is not None
    assert (read_back.says, round(read_back.ratio or 0, 2)) == ("slower", 0.50)
    assert by_series["C"].a is not None
    assert by_series["C"].a.median == pytest.approx(0.101)
    assert not found.worse  # slower is told, and is no verdict


def test_a_run_on_a_restless_machine_gives_no_figure() -> None:
    restless = run(cold=(0.1, 0.3, 0.9))
    for a, b in ((run(), restless), (restless, run())):
        change = next(times.change for times in of(a, b).times if times.series == "C")
        assert change is not None
        assert (change.says, "less quiet run" in change.why) == ("refused", True)


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"engine": {**ENGINE, "model": "other"}}, "A and B differ in model: tiny against other"),
        ({"plan": {"prefix_tokens": 2000}}, "A and B differ in prompt tokens: 1,024 against 2,024"),
        ({"plan": {"output_tokens": 9}}, "A and B differ in output tokens: 8 against 9"),
        ({"engine": {**ENGINE, "device": "cpu"}}, "A and B differ in device: cuda against cpu"),
        ({"versions": {"platform": "Darwin"}}, "A and B differ in platform: Linux against Darwin"),
    ],
)
def test_times_of_different_loads_or_machines_are_not_compared(changes: dict[str, Any], why: str) -> None:
    found = of(run(), run(**changes))
    assert found.incomparable == (why,)
    assert [times.change for times in found.times] == [None, None]


def test_what_was_changed_between_them_is_no_obstacle_and_is_listed() -> None:
    changed = run(engine={"io_backend": "direct", "version": "0.5.23", "url": "http://elsewhere"})
    found = of(run(), changed)
    assert found.incomparable == ()
    assert [(d.name, d.a, d.b) for d in found.configuration] == [("io_backend", "kernel", "direct")]
    assert [(d.name, d.a, d.b) for d in found.versions] == [("SGLang", "0.5.22", "0.5.23")]


def test_bytes_are_those_of_the_request_that_decided_and_unknown_is_not_zero() -> None:
    unmeasured = run()
    for one in unmeasured["requests"]:
        one["evidence"]["physical"] = None
        one["evidence"]["transfers"][0]["bytes"] = None
    found = of(run(), unmeasured)
    assert (found.a.amounts.loaded_tokens, found.a.amounts.loaded_bytes) == (299, 299 * 512)
    assert (found.b.amounts.loaded_tokens, found.b.amounts.loaded_bytes, found.b.amounts.bus_bytes) == (299, None, None)


def test_only_the_control_on_another_engine_is_a_series_of_its_own() -> None:
    other = run()["requests"]
    for kind, expected in (("hicache_off", ["A", "C", "hicache_off"]), ("forced_miss", ["A", "C"])):
        side = read(encoded(run(control={"kind": kind, "requests": other})))
        assert list(side.times) == expected
    assert side.times["C"] == pytest.approx((0.100, 0.101, 0.102))


def test_certificates_have_verdicts_and_no_times() -> None:
    found = compare(read(issued()), read(issued(engine="0.5.23")))
    assert (found.worse, found.doubts) == (False, ())
    assert found.incomparable == (
        "A is a certificate, and has no series of times",
        "B is a certificate, and has no series of times",
    )
    assert [d.name for d in found.versions] == ["SGLang"]


def test_a_certificate_that_was_changed_is_doubted() -> None:
    forged = json.loads(issued())
    forged["judgement"]["verdict"] = "proven"
    found = compare(read(issued()), read(encoded(forged)))
    assert found.doubts == ("B: it does not hold: see `hicache-witness verify`",)
    assert found.sentence.startswith("B does not hold, so which is worse can't be said; the files state: A corr")
    assert compare(read(encoded(forged)), read(encoded(forged))).sentence.startswith("A and B do not hold")


@pytest.mark.parametrize(
    "document",
    [
        b"",
        b"[]",
        b"{}",
        b"[" * 100_000,
        b'{"schema": "hicache-witness/lab-run/1"}',
        encoded(run(outcome={"deciding": "nobody"})),
    ],
)
def test_what_is_no_result_is_refused(document: bytes) -> None:
    with pytest.raises(UnreadableError):
        read(document)
