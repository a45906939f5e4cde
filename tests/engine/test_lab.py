"""The lab on real engines: what it proves there, and what it must not claim."""

from __future__ import annotations

import signal
import subprocess
import sys
import time

import msgspec
import pytest
from click.testing import CliRunner

from hicache_proof.demo.engine import EngineSpec
from hicache_proof.demo.sidecar import Sidecar
from hicache_proof.lab.command import lab
from hicache_proof.lab.run import LabRun
from hicache_proof.report import view

from .driver import ask, prompt

pytestmark = pytest.mark.engine


@pytest.fixture
def proof(tmp_path):
    """Runs the lab beside a sidecar that follows the engine's rings; gives what it printed as JSON."""

    def run(engine, *arguments) -> LabRun:
        with Sidecar(engine.url, engine.rings, tmp_path) as sidecar:
            line = ["--engine", engine.url, "--sidecar", sidecar.url, "--flush", "--json", *arguments]
            result = CliRunner().invoke(lab, line)
        assert result.exit_code in (0, 1), result.stderr
        found = msgspec.json.decode(result.stdout, type=LabRun)
        assert result.exit_code == found.outcome.exit_code
        return found

    return run


@pytest.mark.parametrize(
    "spec",
    [
        EngineSpec(),
        EngineSpec(page_size=16, write_policy="write_back"),
        EngineSpec(page_size=16, write_policy="write_through_selective", tree_core="python"),
        EngineSpec(version="0.5.9"),  # no gauge of its host pool, and idle it does not say that a transfer has ended
    ],
    ids=lambda spec: f"{spec.version}-{spec.write_policy}-{spec.page_size}",
)
def test_a_read_of_l2_is_corroborated_by_its_content(engines, proof, spec):
    run = proof(engines(spec))
    assert (run.outcome.verdict, run.outcome.content, run.outcome.exit_code) == ("corroborated", "intact", 0)
    assert {request.judgement.served_by for request in run.of("C")} == {"host"}
    assert {request.judgement.served_by for request in (*run.of("B"), *run.of("D"))} == {"device"}
    assert {view.served_by(request)[:8] for request in (*run.of("A"), *run.of("miss"))} == {"computed"}


def test_markers_at_three_depths_are_recalled_before_and_after_the_read(engine, proof):
    markers = proof(engine).answers.markers
    assert (markers.planted, markers.followed, markers.recalled) == (3, 3, 3), markers.says
    assert markers.told[0].cold == markers.told[0].before, "computed and from L1"
    for marker in markers.told:
        assert marker.before.startswith(f" {marker.code}.")
        assert marker.before == marker.after, "from L1 and from L2"


def test_with_the_eviction_skipped_c_is_an_l1_hit_and_nothing_is_proven(engine, proof):
    run = proof(engine, "--skip-eviction")
    assert (run.outcome.verdict, run.outcome.exit_code) == ("no_read", 1)
    assert {request.judgement.served_by for request in run.of("C")} == {"device"}


def test_rows_zeroed_on_the_way_back_are_damage_although_every_counter_is_green(engines, proof, faulty):
    run = proof(engines(faulty(load_back="zero")))
    assert (run.outcome.content, run.outcome.exit_code) == ("damaged", 1)
    for request in run.of("C"):
        evidence = request.evidence
        assert evidence.counters.load_back_tokens == evidence.reply.host_tokens == evidence.lookup.host_tokens > 0
        assert evidence.content.mismatched > 0
        answer = evidence.answer  # other tokens, or the same ones with other probabilities
        assert not answer.same_tokens or answer.max_logprob_delta > answer.tolerance
    assert run.answers.markers.says.endswith("after it 0: 3 of 3 failed")
    for marker in run.answers.markers.told:
        assert marker.code in marker.before
        assert marker.code not in marker.after, "an answer like any other, only a wrong one"


def test_lost_records_leave_it_unobserved(engines, proof, faulty):
    run = proof(engines(faulty(lose="TRANSFER_DONE")))
    assert (run.outcome.verdict, run.outcome.exit_code) == ("not_observed", 1)
    assert all(request.evidence.recorder.lost_records > 0 for request in run.of("C"))


def test_with_the_recorder_off_it_is_consistent_at_best(engines, proof):
    run = proof(engines(EngineSpec(witness=False)), "--without-recorder")
    assert (run.outcome.verdict, run.outcome.exit_code) == ("consistent", 1)


def test_an_engine_without_the_recorder_is_refused_with_what_is_missing(engines, tmp_path):
    engine = engines(EngineSpec(witness=False))
    with Sidecar(engine.url, engine.rings, tmp_path) as sidecar:
        result = CliRunner().invoke(lab, ["--engine", engine.url, "--sidecar", sidecar.url])
    assert result.exit_code == 2
    assert "reads no flight recorder at all" in result.stderr


def test_the_ladders_read_from_l2_at_every_rung(engine, proof):
    ladders = ("--ladder", "64,256", "--concurrency", "1,2")
    run = proof(engine, *ladders, "--repetitions", "2", "--prefix-tokens", "250")
    rungs = (*run.lengths.rungs, *run.concurrency.rungs)
    assert [(rung.prefix_tokens, rung.at_once) for rung in rungs[:2]] == [(64, 1), (256, 1)]
    assert all(rung.from_host == rung.requests for rung in rungs)
    assert all(rung.proven == rung.requests for rung in rungs if rung.at_once == 1)
    assert run.lengths.break_even.sentence
    assert {found.failures for found in run.answers.comparisons} == {0}


def test_ctrl_c_in_the_middle_leaves_the_engine_idle_and_serving(engine, tmp_path):
    command = [sys.executable, "-m", "hicache_exporter", "lab", "--engine", engine.url, "--flush"]
    command += ["--repetitions", "6", "--without-recorder"]
    answered = engine.log.read_text().count("POST /generate")
    running = subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True)
    while engine.log.read_text().count("POST /generate") < answered + 8 and running.poll() is None:
        time.sleep(0.1)
    running.send_signal(signal.SIGINT)
    _, stderr = running.communicate(timeout=30)
    assert running.returncode == 130, stderr
    assert "stopped" in stderr
    assert ask(engine, prompt("after ctrl-c")).cached_tokens <= 1, (
        "it serves; two prompts may begin with the same token"
    )
