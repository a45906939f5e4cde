"""Markers: planted, asked for, and never a pass on a model that does not follow."""

from __future__ import annotations

from html import unescape

import pytest

from hicache_proof.lab import markers
from hicache_proof.report import answering

from .fake_engine import FakeEngine


def letters(text):
    return [ord(letter) for letter in text]


def test_they_stand_at_their_depths_and_leave_length_and_first_token_alone():
    prefix = tuple(range(2000, 3000))
    planted = markers.plant(prefix, letters, "salt")
    assert (len(planted.prefix), planted.prefix[0]) == (1000, 2000)
    for marker in planted.markers:
        line = tuple(letters(f" is {marker.code}."))
        at = next(i for i in range(1000) if planted.prefix[i : i + len(line)] == line)
        assert abs(at / 1000 - marker.depth) < 0.05


def test_a_prefix_too_short_for_them_carries_none():
    assert markers.plant(tuple(range(2000, 2150)), letters, "salt") is None


def test_a_model_that_recalls_them_after_the_read_passes(run_of):
    found = run_of(FakeEngine(follows=True)).answers.markers
    assert (found.planted, found.followed, found.recalled) == (3, 3, 3)
    assert "0 of 3 failed" in found.says
    first, *others = found.told
    assert all(text == f" {one.code}." for one in found.told for text in (one.before, one.after))
    assert first.cold == first.before, "the first one is asked for while its prefix is computed, too"
    assert [one.cold for one in others] == [None, None]


def test_the_first_question_computes_the_prefix_and_the_one_after_the_eviction_reads_it(run_of):
    asked = [one for one in run_of(FakeEngine(follows=True)).requests if one.series == "marker"]
    cold, *before = asked[:4]
    assert (cold.repetition, cold.judgement.served_by) == (0, "none")
    assert {one.judgement.served_by for one in before} == {"device"}
    assert asked[4].judgement.served_by == "host"


def test_every_report_shows_what_was_answered_before_and_after(ask, tmp_path):
    text = ask(FakeEngine(follows=True, forgets=True), "--out", str(tmp_path)).stdout
    page = unescape((tmp_path / "report.html").read_text())
    for report in (text, page, (tmp_path / "report.md").read_text()):
        assert report.count('after the eviction "?"') == 3
        assert report.count('computed "') == 1
    assert '<td class="failed">3 of 3 recalled before the eviction' in page


def test_a_marker_lost_with_the_read_is_damage(run_of):
    run = run_of(FakeEngine(follows=True, forgets=True))
    assert (run.outcome.content, run.outcome.exit_code) == ("damaged", 1)
    assert run.answers.markers.recalled < run.answers.markers.followed
    lost = [one for one in run.requests if one.series == "marker" and one.judgement.content == "damaged"]
    assert lost
    assert lost[0].evidence.answer.markers_planted == 1
    assert "the planted markers" in run.outcome.sentence
    assert "what was read is not what was stored" not in run.outcome.sentence


def test_on_a_model_that_does_not_follow_they_are_not_used_and_nothing_passes(run_of):
    run = run_of(FakeEngine(follows=False))
    assert "this model does not follow" in run.answers.markers.says
    assert (run.answers.markers.followed, run.answers.markers.recalled) == (0, 0)
    assert run.outcome.exit_code == 0
    assert not answering.told(run), "nothing to compare"
    assert not any(one.evidence.answer.markers_planted for one in run.requests if one.evidence.answer)


@pytest.mark.parametrize(
    ("engine", "options", "why"),
    [
        (FakeEngine(tokenizer=False), ("--token-ids", "100-900"), "no tokenizer"),
        (FakeEngine(), ("--prefix-tokens", "100"), "too short"),
    ],
)
def test_where_they_cannot_be_planted_it_says_why(run_of, engine, options, why):
    found = run_of(engine, *options).answers.markers
    assert (found.planted, found.recalled) == (0, 0)
    assert why in found.says
