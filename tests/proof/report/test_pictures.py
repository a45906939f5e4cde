"""The two pictures: everything inside the frame, in the order in which it happened."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from hicache_proof.report import html, pictures, scale, timeline


def test_the_timeline_tells_the_story_in_order(proven):
    found = timeline.of(proven.deciding)
    assert [event.what for event in found.before] == ["backed up to L2", "evicted from L1"]
    assert [event.what for event in found.during] == [
        "time to first token",
        "lookup",
        "load-back asked",
        "admitted",
        "transfer L2 to L1",
        "first token",
    ]
    assert all(event.start_ns < 0 for event in found.before)
    assert all(0 <= event.start_ns <= found.span_ns for event in found.during)


def test_a_client_on_another_machine_is_left_out(proven):
    reply = proven.deciding.reply
    hour = 3600 * 10**9
    elsewhere = replace(
        proven.deciding,
        reply=replace(reply, sent_ns=reply.sent_ns - hour, first_token_ns=reply.first_token_ns - hour, done_ns=0),
    )
    assert not timeline.one_clock(elsewhere)
    assert "client" not in {event.who for event in timeline.of(elsewhere).during}


@pytest.mark.parametrize("seconds", [-3600, 3600])
def test_a_clock_that_is_ahead_or_behind_is_another_clock(proven, seconds):
    reply = proven.deciding.reply
    shift = seconds * 10**9
    other = replace(
        reply,
        sent_ns=reply.sent_ns + shift,
        first_token_ns=reply.first_token_ns + shift,
        done_ns=reply.done_ns + shift,
    )
    assert not timeline.one_clock(replace(proven.deciding, reply=other))


def test_nothing_seen_gives_no_timeline(unwatched):
    assert timeline.of(unwatched.deciding) is None
    assert pictures.draw_timeline(unwatched.deciding) is None


def test_a_transfer_without_bytes_or_end_is_an_instant(proven):
    evidence = proven.deciding.evidence
    open_transfer = replace(evidence.transfers[0], bytes=None, finished_ns=None, finished=None)
    found = timeline.of(replace(proven.deciding, evidence=replace(evidence, transfers=(open_transfer,))))
    event = next(event for event in found.during if event.who == "device")
    assert event.end_ns is None
    assert "bytes" not in event.detail


def test_a_wait_that_ends_at_a_poll_is_not_drawn_as_the_copy(proven):
    found = timeline.of(proven.deciding)
    seconds = proven.deciding.evidence.transfers[0].device_seconds
    polled = [event for event in found.during if event.polled]
    assert [event.what for event in polled] == ["transfer L2 to L1"]
    assert f"copied in {1e3 * seconds:.2f} ms (device clock)" in polled[0].detail
    mark = next(mark for mark in pictures.draw_timeline(proven.deciding).during if mark.polled)
    assert mark.time.startswith("seen done after ")
    assert 'class="device polled"' in html.render(proven)


def test_the_scheduler_s_first_token_does_not_claim_to_come_before_the_client_s(proven):
    event = next(event for event in timeline.of(proven.deciding).during if event.what == "first token")
    assert "the token may be out already" in event.detail


def test_a_label_may_reach_out_of_a_hollow_bar():
    assert pictures._beside(500, 800, 322, hollow=True) == (510, "start")
    assert pictures._beside(700, 900, 322, hollow=True) == (690, "end")


def test_everything_is_inside_the_frame(proven):
    picture = pictures.draw_timeline(proven.deciding)
    for mark in (*picture.before, *picture.during):
        assert 340 <= mark.x <= (mark.x2 or mark.x) <= 940
        assert 0 < mark.y < picture.axis_y
    ttft = pictures.draw_ttft(proven)
    assert [strip.name for strip in ttft.strips] == ["A", "B", "C", "D", "control"]
    for strip in ttft.strips:
        assert all(495 <= x <= 940 for x in (*strip.dots, strip.median_x, *strip.band))


@pytest.mark.parametrize(
    ("largest", "labels"),
    [
        (2.2, ("0.0", "0.5", "1.0", "1.5", "2.0")),
        (97, ("0", "20", "40", "60", "80", "100")),
        (2100, ("0", "500", "1,000", "1,500", "2,000")),
        (0, ("0.0", "0.2", "0.4", "0.6", "0.8", "1.0")),
    ],
)
def test_ticks_are_round(largest, labels):
    assert scale.milliseconds(largest).labels == labels


@pytest.mark.parametrize(
    ("ns", "words"),
    [(-3_000_000, "3 ms before"), (-4_200_000_000, "4.2 s before"), (-600 * 10**9, "10 min before")],
)
def test_the_past_is_given_in_a_unit_that_can_be_held(ns, words):
    assert scale.ago(ns) == words


@pytest.mark.parametrize(
    ("x", "x2", "place"),
    [
        (500, None, (510, "start")),
        (930, None, (920, "end")),
        (500, 600, (610, "start")),
        (500, 930, (510, "inside")),
        (910, 930, (900, "end")),
    ],
)
def test_a_time_stands_where_it_hides_nothing(x, x2, place):
    assert pictures._beside(x, x2, 100) == place
