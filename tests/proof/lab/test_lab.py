"""The lab from outside: against an engine that behaves, and against one fault at a time."""

from __future__ import annotations

import json

import msgspec
import pytest

from hicache_proof.lab.sidecar import NoProof, SidecarClient
from hicache_proof.report.view import limits

from .fake_engine import FakeEngine, serving, sidecar_of


def test_a_read_from_l2_that_all_witnesses_saw_is_corroborated_and_exits_0(ask, run_of):
    run = run_of(FakeEngine())
    assert (run.outcome.verdict, run.outcome.content, run.outcome.exit_code) == ("corroborated", "intact", 0)
    assert [request.judgement.served_by for request in run.of("C")] == ["host"] * 3
    assert {request.judgement.served_by for request in (*run.of("B"), *run.of("D"))} == {"device"}
    assert {request.judgement.verdict for series in "ABD" for request in run.of(series)} == {"no_read"}


def test_the_lab_adds_what_only_a_client_sees(run_of):
    evidence = run_of(FakeEngine()).of("C")[0].evidence
    assert evidence.reply.host_tokens == evidence.counters.load_back_tokens == evidence.lookup.host_tokens
    assert evidence.counters.exclusive
    assert evidence.answer.same_tokens
    assert (evidence.control.kind, evidence.control.host_tokens) == ("forced_miss", None)  # null in a cold reply


def test_with_the_prefix_left_in_l1_nothing_is_proven(ask, run_of):
    run = run_of(FakeEngine(), "--skip-eviction")
    assert (run.outcome.verdict, run.outcome.exit_code) == ("no_read", 1)
    assert {request.judgement.served_by for request in run.of("C")} == {"device"}
    assert "No L2 read" in ask(FakeEngine(), "--skip-eviction").stdout


def test_a_filled_l2_is_no_reason_to_refuse_a_run_that_evicts_nothing(ask, run_of):
    engine = FakeEngine(host=16384)
    while engine.host - len(engine.l2) > 1000:
        assert ask(engine).exit_code == 0
    run = run_of(engine, "--skip-eviction")
    assert (run.outcome.verdict, run.outcome.exit_code) == ("no_read", 1)
    assert {request.judgement.served_by for request in run.of("C")} == {"device"}


def test_damaged_rows_fail_the_run_although_every_counter_is_green(run_of):
    run = run_of(FakeEngine(damages=True))
    assert (run.outcome.content, run.outcome.exit_code) == ("damaged", 1)
    assert run.of("C")[0].evidence.counters.load_back_tokens > 0
    assert "not what was stored" in run.outcome.sentence


def test_without_the_recorder_a_read_is_only_consistent(ask, run_of):
    run = run_of(FakeEngine(), "--without-recorder", sidecar=False)
    assert (run.outcome.verdict, run.outcome.exit_code) == ("consistent", 1)
    assert any(check.name == "recorder" and check.state == "warning" for check in run.checks)


def test_what_the_engine_lacks_is_said_before_what_watches_it(ask):
    result = ask(FakeEngine(hicache=False), sidecar=False)
    assert result.exit_code == 2
    assert "HiCache is off" in result.stderr


def test_a_sidecar_that_ends_in_the_middle_of_a_run_is_said_to_have(ask, run_of, monkeypatch):
    """Here it answers neither a health check but the first nor the proofs of the last series."""
    answered, asked = [], []

    def killed(self):
        answered.append(None)
        return None if len(answered) == 1 else f"no sidecar at {self.url}"

    def ask_until_then(self, request_id, wait_seconds):
        asked.append(request_id)
        return found(self, request_id, wait_seconds) if len(asked) <= 12 else NoProof(why="it is gone")

    found = SidecarClient._ask
    monkeypatch.setattr(SidecarClient, "_why_unreachable", killed)
    monkeypatch.setattr(SidecarClient, "_ask", ask_until_then)
    run = run_of(FakeEngine())
    unseen = [request for request in run.requests if not request.events]
    assert 0 < len(unseen) < len(run.requests)
    assert run.sidecar_missing.startswith("no sidecar at http://127.0.0.1:")
    assert run.sidecar_missing.endswith(" (it answered when the run began)")
    told = f"Of {len(unseen)} of {len(run.requests)} requests the flight recorder tells nothing: {run.sidecar_missing}."
    assert told in limits(run)
    answered.clear(), asked.clear()
    assert "(it answered when the run began)" in ask(FakeEngine()).stderr


def test_without_a_sidecar_it_stops_before_it_asks_and_says_what_to_do(ask):
    engine = FakeEngine()
    result = ask(engine, sidecar=False)
    assert result.exit_code == 2
    assert "no sidecar at http://127.0.0.1:9" in result.stderr
    assert "hicache-witness serve --engine http://127.0.0.1:" in result.stderr
    assert not engine.bodies


def test_a_sidecar_that_reads_the_recorder_of_another_engine_is_told_apart(ask):
    other, asked = FakeEngine(), FakeEngine()
    with serving(other), sidecar_of(other) as strange:
        result = ask(asked, "--sidecar", strange)
    assert result.exit_code == 2
    assert f"it reads the flight recorder of {other.address}" in result.stderr
    assert "HICACHE_WITNESS=1" in result.stderr
    assert len(asked.bodies) == 1, "one probe, and no more"


def test_another_server_than_sglang_is_called_one(ask):
    with sidecar_of(FakeEngine()) as sidecar:
        result = ask(FakeEngine(), "--engine", sidecar)
    assert result.exit_code == 2
    assert "is no SGLang server: /server_info answers 404" in result.stderr


@pytest.mark.parametrize(
    ("engine", "says"),
    [
        (FakeEngine(loads_back_in_b=True), "series B (repetition 1) must show no load-back"),
        (FakeEngine(warm_in_a=True), "series A (repetition 1) was not cold"),
        (FakeEngine(caches=False), "series B must be served from L1, but only 0 of"),
        (FakeEngine(backs_up=False), "precondition failed: not backed up: 0 of"),
        (FakeEngine(backs_up=False, policy="write_back"), "backs a prefix up only when L1 evicts it"),
        (FakeEngine(serves_others=2), "is serving other requests (2 running, 0 queued)"),
        (FakeEngine(hicache=False), "start the engine with --enable-hierarchical-cache"),
        (FakeEngine(metrics=False), "start the engine with --enable-metrics"),
        (FakeEngine(tokenizer=False), "--token-ids"),
        (FakeEngine(host=1100), "tokens to L2, but only"),
        (FakeEngine(device=64, host=512), "too small"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_cannot_be_carried_out_exits_2_with_one_sentence(ask, engine, says, monkeypatch):
    monkeypatch.setattr("hicache_proof.lab.protocol.BACKUP_SECONDS", 0.1)
    monkeypatch.setattr("hicache_proof.lab.preflight.IDLE_SECONDS", 0.1)
    result = ask(engine)
    assert result.exit_code == 2
    assert says in result.stderr
    assert "Traceback" not in result.stderr


def test_nothing_is_evicted_before_the_prefix_is_known_to_be_backed_up(ask, monkeypatch):
    monkeypatch.setattr("hicache_proof.lab.protocol.BACKUP_SECONDS", 0.1)
    engine = FakeEngine(backs_up=False)
    ask(engine)
    assert engine.asked
    assert not [rid for rid in engine.asked if rid.endswith("-load")]


def test_a_prompt_longer_than_a_prefill_chunk_is_the_likely_reason(ask, monkeypatch):
    monkeypatch.setattr("hicache_proof.lab.protocol.BACKUP_SECONDS", 0.1)
    result = ask(FakeEngine(backs_up=False, chunk=128), "--prefix-tokens", "200")
    assert "longer than the chunked prefill size of 128" in result.stderr


@pytest.mark.parametrize(("page", "asked", "fewest"), [(1, 1, 32), (64, 127, 128)])
def test_a_prefix_under_two_pages_is_refused(ask, page, asked, fewest):
    engine = FakeEngine(page=page)
    result = ask(engine, "--prefix-tokens", str(asked))
    assert result.exit_code == 2
    assert f"--prefix-tokens {fewest} or more" in result.stderr


def test_nothing_listening_is_one_sentence(ask):
    result = ask(FakeEngine(), "--engine", "http://127.0.0.1:9")
    assert result.exit_code == 2
    assert "http://127.0.0.1:9 does not answer" in result.stderr


def test_a_dry_run_shows_the_arithmetic_and_asks_for_nothing(ask):
    engine = FakeEngine()
    result = ask(engine, "--dry-run")
    assert result.exit_code == 0
    assert "L1 holds 1,024 tokens, L2 4,096" in result.stdout
    assert not engine.bodies


def test_an_old_engine_s_host_pool_is_known_to_the_recorder_and_empty_after_a_flush(ask, run_of):
    assert "take --flush" in ask(FakeEngine(old=True)).stderr
    run = run_of(FakeEngine(old=True), "--flush")
    assert run.outcome.verdict == "corroborated"
    assert "(the flight recorder)" in next(check.says for check in run.checks if check.name == "backup")
    assert "take --flush" in ask(FakeEngine(old=True), "--flush", "--without-recorder", sidecar=False).stderr


def test_what_an_idle_engine_tells_late_is_asked_for_again(run_of):
    run = run_of(FakeEngine(lazy=True))
    assert run.outcome.verdict == "corroborated"
    assert all(request.evidence.transfers[0].finished for request in run.of("C"))


def test_the_cache_is_flushed_only_when_told(ask):
    left, emptied = FakeEngine(), FakeEngine()
    ask(left)
    ask(emptied, "--flush")
    assert (left.flushes, emptied.flushes) == (0, 1)


def test_nobody_s_cache_is_flushed_between_two_of_their_requests(ask):
    engine = FakeEngine(others_in_between=True)
    result = ask(engine, "--flush")
    assert result.exit_code == 2
    assert "is serving other requests (1 ended while the lab only watched)" in result.stderr
    assert (engine.flushes, engine.bodies) == (0, [])


def test_nobody_s_cache_is_flushed_who_has_begun_meanwhile(ask):
    engine = FakeEngine(others_begin_after=1)
    result = ask(engine, "--flush")
    assert result.exit_code == 2
    assert "is serving other requests (1 running, 0 queued)" in result.stderr
    assert engine.flushes == 0


def test_who_allows_other_traffic_has_its_cache_flushed_too(ask):
    engine = FakeEngine(others_in_between=True)
    ask(engine, "--flush", "--allow-traffic")
    assert engine.flushes == 1


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (("--ladder", "100000"), "--ladder: a prefix of 100,000 tokens does not fit"),
        (("--prefix-tokens", "50000"), "a prefix of 50,000 tokens is too long"),
        (("--concurrency", "64"), "--concurrency: 64 prompts at once leave a prefix of"),
        (("--repetitions", "100", "--prefix-tokens", "100"), "the run would write up to"),
        (("--ladder", "100", "--skip-eviction"), "can't be combined with --skip-eviction"),
        (("--l3",), "has no L3"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_nothing_is_flushed_for_a_run_that_can_not_go_on(ask, options, says):
    engine = FakeEngine()
    result = ask(engine, "--flush", *options)
    assert result.exit_code == 2
    assert says in result.stderr
    assert engine.flushes == 0


def test_nothing_is_flushed_where_no_recorder_watches(ask):
    engine = FakeEngine()
    with sidecar_of(FakeEngine()) as strange:
        result = ask(engine, "--flush", "--sidecar", strange)
    assert "saw nothing of a request" in result.stderr
    assert (result.exit_code, engine.flushes) == (2, 0)


def test_nothing_is_flushed_for_a_control_engine_without_metrics(ask):
    engine = FakeEngine()
    result = ask(engine, "--flush", control=FakeEngine(hicache=False, metrics=False))
    assert (result.exit_code, engine.flushes) == (2, 0)


def test_a_flush_that_emptied_nothing_is_found_out_by_the_probe(ask):
    result = ask(FakeEngine(flushes_nothing=True), "--flush")
    assert result.exit_code == 2
    assert "says that it emptied its cache, but 31 of 32 tokens" in result.stderr


def test_a_dry_run_plans_with_the_flush_that_it_does_not_do(ask):
    engine = FakeEngine(host=16384)
    assert ask(engine).exit_code == 0
    used = len(engine.l2)
    plans = [ask(engine, *options, "--dry-run").stdout for options in ((), ("--flush",))]
    assert f"of which {used:,} are used" in plans[0]
    assert "of which 0 are used after the flush: 16,384 free" in plans[1]
    assert (engine.flushes, len(engine.l2)) == (0, used)


def test_the_flush_of_an_engine_with_an_admin_key_wants_that_key(ask, tmp_path):
    (tmp_path / "key").write_text("adm1n\n")
    engine = FakeEngine(admin_key="adm1n")
    refused = ask(engine, "--flush")
    assert (refused.exit_code, engine.flushes) == (2, 0)
    assert "--admin-key-file" in refused.stderr
    result = ask(engine, "--flush", "--admin-key-file", str(tmp_path / "key"))
    assert (result.exit_code, engine.flushes) == (0, 1)
    assert "adm1n" not in result.output


def test_every_request_is_one_greedy_answer(ask):
    engine = FakeEngine()
    ask(engine)
    for body in engine.bodies:
        assert body["sampling_params"]["temperature"] == 0
        assert body["sampling_params"]["n"] == 1
        assert body["sampling_params"]["ignore_eos"]


def test_two_runs_share_no_prompt_and_the_second_is_cold_as_well(ask):
    engine = FakeEngine(host=16384)
    assert ask(engine).exit_code == 0
    first = {tuple(body["input_ids"]) for body in engine.bodies}
    assert ask(engine).exit_code == 0
    assert not first & {tuple(body["input_ids"]) for body in engine.bodies[len(engine.bodies) // 2 :]}


def test_every_series_asks_as_it_should(ask):
    engine = FakeEngine()
    ask(engine, "--repetitions", "2")
    by_series = {}
    for body in engine.bodies[5:]:  # after probe and warm-up
        by_series.setdefault(body["rid"].rsplit("-", 1)[1], []).append(body["input_ids"])
    assert by_series["B"][0] == by_series["B"][1] == by_series["C"][0] == by_series["D"][0]
    assert by_series["B"][2] == by_series["A"][0]
    cold, warm = by_series["A"][0], by_series["B"][0]
    assert cold != warm
    assert cold[:-16] == warm[:-16]
    assert len({ids[0] for ids in by_series["load"]}) == len(by_series["load"])


def test_the_warm_up_has_the_shapes_of_the_series_and_none_of_their_prompts(ask):
    engine = FakeEngine()
    ask(engine, "--repetitions", "2")
    warm_up, series = engine.bodies[1:5], [body for body in engine.bodies[5:] if not body["rid"].endswith("-marker")]
    assert [body["rid"].rsplit("-", 1)[1] for body in warm_up] == ["A", "B", "B", "marker"]
    opening, question = warm_up[0]["input_ids"], warm_up[1]["input_ids"]
    assert opening[:-16] == question[:-16]
    assert opening != question
    assert len(opening) == len(series[0]["input_ids"])
    assert not {body["input_ids"][0] for body in warm_up} & {body["input_ids"][0] for body in series}


def test_traffic_of_others_costs_the_counters_and_is_reported(run_of):
    run = run_of(FakeEngine(others_each_request=7), "--allow-traffic")
    assert not any(request.exclusive for request in run.requests)
    assert any(check.name == "traffic" and check.state == "warning" for check in run.checks)
    assert run.outcome.verdict == "corroborated"  # the recorder watches requests, not windows


def test_the_control_engine_gets_the_same_load(ask, run_of):
    control = FakeEngine(hicache=False)
    engine = FakeEngine()
    run = run_of(engine, control=control)
    assert run.control.kind == "hicache_off"
    assert run.of("C")[0].evidence.control.kind == "hicache_off"
    sent, same = (
        [body["input_ids"] for body in one.bodies if not body["rid"].endswith("-marker")] for one in (control, engine)
    )
    assert sent == same[1:], "all but the probe"


def test_an_engine_with_hicache_is_no_control(ask):
    result = ask(FakeEngine(), control=FakeEngine())
    assert result.exit_code == 2
    assert "can't be the control" in result.stderr


@pytest.mark.parametrize("split", ["null", "absent"])
def test_a_missing_split_is_shown_as_missing_not_as_zero(run_of, split):
    reply = run_of(FakeEngine(split=split)).of("C")[0].reply
    assert (reply.split, reply.host_tokens, reply.device_tokens) == (split, None, None)
    assert reply.cached_tokens > 0


def test_no_secret_of_the_engine_is_in_the_report(ask, tmp_path):
    result = ask(FakeEngine(), "--json", "--out", str(tmp_path))
    written = result.output + "".join(path.read_text() for path in tmp_path.iterdir())
    assert "--api-key (redacted)" in written
    assert "s3cret" not in written


def test_with_json_a_run_that_could_not_be_carried_out_is_an_error_document(ask):
    result = ask(FakeEngine(hicache=False), "--json")
    assert result.exit_code == 2
    assert "HiCache is off" in json.loads(result.stdout)["error"]


def test_a_folder_that_cannot_be_written_is_refused_before_the_engine_is_asked(ask, tmp_path):
    (tmp_path / "file").write_text("")
    engine = FakeEngine()
    result = ask(engine, "--out", str(tmp_path / "file" / "folder"))
    assert result.exit_code == 2
    assert "Not a directory" in result.stderr
    assert not engine.bodies


def test_ctrl_c_ends_the_run_at_once(ask):
    engine = FakeEngine(interrupts_at=8)
    result = ask(engine)
    assert result.exit_code == 130
    assert "stopped" in result.stderr
    assert len(engine.bodies) == 8
    assert engine.flushes == 0


def test_without_a_terminal_each_stage_is_a_plain_line_on_stderr(ask):
    result = ask(FakeEngine(), "--json")
    assert result.stderr.splitlines() == [
        f"hicache-witness lab: {stage}"
        for stage in ("preflight", "warm-up", "A, B: cold, then L1", "eviction load", "C, D: read back, then L1")
    ]
    msgspec.json.decode(result.stdout)


def test_out_holds_one_file_for_each_kind_of_reader(ask, tmp_path):
    ask(FakeEngine(), "--out", str(tmp_path / "new" / "folder"))
    written = {path.name for path in (tmp_path / "new" / "folder").iterdir()}
    assert {"report.html", "report.md", "report.json", "trace.json"} <= written
