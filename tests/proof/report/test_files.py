"""What lies in the folder after a run."""

from __future__ import annotations

import json

import msgspec
from msgspec.structs import replace

from hicache_proof.lab.run import LabRun
from hicache_proof.report import files, markdown, trace, view
from hicache_proof.verify import verify


def test_report_json_is_the_whole_run(proven, tmp_path):
    files.write(proven, tmp_path)
    assert msgspec.json.decode((tmp_path / "report.json").read_bytes(), type=LabRun) == proven


def test_the_markdown_has_one_row_for_each_series_and_witness(proven):
    text = markdown.render(proven)
    assert text.startswith(f"## {proven.outcome.sentence}")
    assert sum(line.startswith("| **") for line in text.splitlines()) == 5
    for witness in proven.deciding.judgement.witnesses:
        assert f"| {witness.name} |" in text


def test_the_markdown_tells_of_storage_ladders_and_answers(everything):
    text = markdown.render(everything)
    assert f"**{everything.storage.sentence}**" in text
    assert everything.lengths.break_even.sentence in text
    assert "| 2 at once |" in text
    assert "- markers: 3 of 3 recalled before the eviction" in text


def test_what_a_model_said_is_code_in_a_tracker_and_nobody_s_name(everything):
    told = tuple(replace(one, after="7`@team <b>") for one in everything.answers.markers.told)
    answers = replace(everything.answers, markers=replace(everything.answers.markers, told=told))
    said = [line for line in markdown.render(replace(everything, answers=answers)).splitlines() if "@team" in line]
    assert said
    assert all(line.startswith("- `marker ") and line.endswith('"7\'@team <b>"`') for line in said)


def test_report_json_holds_all_that_was_asked_for(everything, tmp_path):
    files.write(everything, tmp_path)
    assert msgspec.json.decode((tmp_path / "report.json").read_bytes(), type=LabRun) == everything


def test_the_markdown_table_survives_a_bar_in_a_text(proven):
    deciding = proven.deciding
    witness = replace(deciding.judgement.witnesses[0], says="a | b")
    judgement = replace(deciding.judgement, witnesses=(witness,))
    requests = tuple(replace(r, judgement=judgement) if r is deciding else r for r in proven.requests)
    assert "a \\| b" in markdown.render(replace(proven, requests=requests))


def test_the_trace_opens_in_perfetto(proven):
    document = json.loads(json.dumps(trace.events(proven)))
    slices = [event for event in document["traceEvents"] if event["ph"] == "X"]
    assert {"C 1", "C 2", "transfer L2 to L1"} <= {event["name"] for event in slices}
    copies = [event for event in slices if event["name"] == "transfer L2 to L1"]
    assert {event["args"]["ends"] for event in copies} == {"at the poll that saw it finished"}
    assert all(event["ts"] >= 0 and event["dur"] >= 0 for event in slices)
    tracks = {event["tid"]: event["args"]["name"] for event in document["traceEvents"] if event["ph"] == "M"}
    assert {event["tid"] for event in slices} <= tracks.keys()


def test_an_engine_s_events_lie_within_their_request(proven):
    document = trace.events(proven)["traceEvents"]
    requests = {e["args"]["request_id"]: e for e in document if e.get("cat") and e["tid"] == 1}
    for event in document:
        if event["tid"] == 2 and event.get("cat"):
            request = requests[event["args"]["request_id"]]
            assert request["ts"] <= event["ts"] <= request["ts"] + request["dur"]


def test_the_summary_is_one_line(proven):
    line = view.summary(proven)
    assert "\n" not in line
    assert proven.outcome.sentence in line


def test_missing_numbers_are_dashes_not_zeros(unwatched):
    rows = {row.series: row for row in view.rows(unwatched)}
    assert rows["A"].host == view.DASH  # the reply of a cold request says null
    assert [share.percent for share in rows["A"].shares] == [0, 0, 100]  # but that nothing was cached is told
    assert rows["C"].host != view.DASH


def test_a_bar_is_not_drawn_of_numbers_that_are_missing(proven):
    half_known = tuple(
        replace(r, evidence=replace(r.evidence, attribution=None), reply=replace(r.reply, host_tokens=None))
        for r in proven.requests
    )
    rows = {row.series: row for row in view.rows(replace(proven, requests=half_known))}
    assert rows["C"].shares == ()


def test_a_demo_on_a_cpu_says_that_both_tiers_are_ram(proven):
    assert any("both in this machine's RAM" in line for line in view.limits(proven))
    on_gpu = replace(proven, engine=replace(proven.engine, device="cuda"))
    assert not any("RAM" in line for line in view.limits(on_gpu))


def test_the_control_is_named(proven, unwatched):
    limit = "forced miss"
    assert not any(limit in line for line in view.limits(proven))
    assert any(limit in line for line in view.limits(unwatched))


def test_the_certificate_is_of_the_request_that_decided_and_holds(proven, tmp_path):
    files.write(proven, tmp_path)
    verification = verify((tmp_path / "certificate.json").read_bytes())
    assert verification.holds
    assert (verification.request_id, verification.verdict) == (proven.outcome.deciding, "corroborated")


def test_a_report_that_an_earlier_release_wrote_can_still_be_read(proven):
    document = msgspec.json.decode(msgspec.json.encode(proven))
    for new in ("answers", "whole", "storage", "lengths", "concurrency", "energy"):
        del document[new]
    del document["plan"]["storage_fillers"]
    del document["engine"]["prefetch_policy"]
    old = msgspec.json.decode(msgspec.json.encode(document), type=LabRun)
    assert old.outcome == proven.outcome
    assert "not told" in markdown.render(old)


def test_the_one_line_summary_tells_of_storage_and_of_the_break_even(everything):
    line = view.summary(everything)
    assert everything.storage.sentence in line
    assert everything.lengths.break_even.sentence in line
