"""The command as a person meets it."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from hicache_exporter.config import DEFAULT_LISTEN
from hicache_proof.chain.facts import Probe
from hicache_proof.doctor.command import doctor
from hicache_tracing.recorder import Recorder

from .web import ENGINE, SIDECAR, answering, sidecar_of

NOBODY = "http://127.0.0.1:1"


def ask(*arguments: str) -> Result:
    """Never the sidecar that may run on this machine."""
    elsewhere = () if "--sidecar" in arguments else ("--sidecar", NOBODY)
    return CliRunner().invoke(doctor, [*arguments, *elsewhere], catch_exceptions=False)


def engine_with(**info: Any) -> dict[str, bytes]:
    return {**ENGINE, "/server_info": json.dumps(json.loads(ENGINE["/server_info"]) | info).encode()}


def test_an_engine_in_order() -> None:
    with answering(ENGINE) as engine, answering(sidecar_of(engine)) as sidecar:
        result = ask("--engine", engine, "--sidecar", sidecar)
    assert result.exit_code == 0
    assert f"{engine}: nothing is broken; one stage has nothing to show yet" in result.output
    assert "load_back    ok       873 of 873 promised tokens loaded back" in result.output
    assert "sglang#39297" in result.output


def test_a_broken_engine_names_the_first_broken_stage_and_what_to_do(tmp_path: Path) -> None:
    with answering(engine_with(enable_hierarchical_cache=False)) as engine:
        result = ask("--engine", engine, "--ring-dir", str(tmp_path))
    assert result.exit_code == 2
    assert "the chain is broken at flags" in result.output
    assert "-> Start the engine with --enable-hierarchical-cache." in result.output


def test_a_warning_alone_exits_with_1() -> None:
    with answering(ENGINE) as engine:
        page = sidecar_of(engine)["/metrics"]
        with answering({"/metrics": page.replace(b'reason="torn"} 0.0', b'reason="torn"} 2.0')}) as sidecar:
            result = ask("--engine", engine, "--sidecar", sidecar)
    assert result.exit_code == 1
    assert "warning plugin: 2 records lost" in result.output


def test_a_sidecar_that_has_followed_an_earlier_run_is_not_taken_at_its_word_for_this_one() -> None:
    with answering(ENGINE) as engine:
        page = sidecar_of(engine)["/metrics"]
        restarts = f'hicache_engine_restarts_total{{engine="{engine.removeprefix("http://")}"}} 1.0\n'.encode()
        with answering({"/metrics": page + restarts}) as sidecar:
            result = ask("--engine", engine, "--sidecar", sidecar)
    assert result.exit_code == 1
    assert "warning plugin: the sidecar has seen at least 1 restart(s) of the engine and counts all" in result.output
    assert "load_back    ok       873 tokens loaded back (engine's counter)" in result.output


def test_json_holds_the_facts_and_the_diagnosis() -> None:
    with answering(ENGINE) as engine, answering(sidecar_of(engine)) as sidecar:
        answered = json.loads(ask("--engine", engine, "--sidecar", sidecar, "--json").output)
    assert answered["facts"]["counted"]["load_back_tokens"] == 873
    assert [stage["name"] for stage in answered["diagnosis"]["stages"]][:3] == ["flags", "plugin", "metrics"]
    assert answered["diagnosis"]["first_broken"] is None
    assert all("do" in issue for issue in answered["diagnosis"]["known_issues"])


def test_no_engine_at_all_is_one_sentence() -> None:
    with answering({}) as gone:
        pass
    result = ask("--engine", gone)
    assert result.exit_code == 3
    assert result.stdout == ""
    assert result.stderr.count("\n") == 1
    assert "is the engine running there?" in result.stderr


def test_a_wrong_address_is_wrong_usage() -> None:
    result = ask("--engine", "ftp://127.0.0.1:1")
    assert result.exit_code == 2
    assert "use http or https" in result.stderr


def test_a_wrong_address_of_the_sidecar_is_not_called_the_engine_s() -> None:
    result = ask("--engine", NOBODY, "--sidecar", "127.0.0.1:99999")
    assert result.exit_code == 2
    assert "Invalid value for --sidecar: '127.0.0.1:99999' is no address" in result.stderr


def test_without_metrics_the_configuration_still_speaks(tmp_path: Path) -> None:
    with answering({"/server_info": engine_with(enable_metrics=False)["/server_info"]}) as engine:
        result = ask("--engine", engine, "--ring-dir", str(tmp_path))
    assert result.exit_code == 2
    assert "error metrics: --enable-metrics is not set" in result.output


def test_an_older_engine_is_asked_by_its_own_path(tmp_path: Path) -> None:
    with answering({"/get_server_info": ENGINE["/server_info"], "/metrics": ENGINE["/metrics"]}) as engine:
        result = ask("--engine", engine, "--ring-dir", str(tmp_path), "--json")
    assert json.loads(result.output)["facts"]["configuration"]["version"] == "0.5.23"


def test_the_key_goes_to_the_engine_and_not_to_the_sidecar(tmp_path: Path) -> None:
    key = tmp_path / "key"
    key.write_text("s3cret\n")
    with answering(ENGINE, key="s3cret") as engine, answering(sidecar_of(engine), key="s3cret") as sidecar:
        result = ask("--engine", engine, "--sidecar", sidecar, "--api-key-file", str(key), "--ring-dir", str(tmp_path))
    assert "metrics      ok" in result.output
    assert f"the sidecar: {sidecar}/metrics wants a key (401)" in result.output.replace("\n", " ")


def test_a_missing_key_is_told(tmp_path: Path) -> None:
    with answering(ENGINE, key="s3cret") as engine:
        result = ask("--engine", engine, "--ring-dir", str(tmp_path))
    assert result.exit_code == 3
    assert result.stderr.endswith("wants a key (401): give it with --api-key-file\n")


def test_the_sidecar_in_place_of_the_engine_is_told(tmp_path: Path) -> None:
    with answering(SIDECAR) as sidecar:
        result = ask("--engine", sidecar, "--ring-dir", str(tmp_path))
    assert result.exit_code == 3
    assert f"{sidecar} is no SGLang server: /server_info answers 404; give --engine the address" in result.stderr
    assert result.stderr.count("\n") == 1


def test_pages_that_are_not_an_engines_are_told(tmp_path: Path) -> None:
    with answering({"/server_info": b"<html>", "/metrics": b"up 1\n"}) as other:
        result = ask("--engine", other, "--ring-dir", str(tmp_path))
    assert result.exit_code == 3
    assert f"{other} is no SGLang server: what /server_info answers is not SGLang's" in result.stderr


def test_a_sidecar_that_is_not_there_leaves_the_rings(tmp_path: Path) -> None:
    with answering({}) as gone:
        pass
    with answering(ENGINE) as engine:
        result = ask("--engine", engine, "--sidecar", gone, "--ring-dir", str(tmp_path))
    assert "does not answer" in result.output
    assert "no recorder in" in result.output.replace("\n", " ")


def test_the_sidecar_is_looked_for_where_it_listens_by_default() -> None:
    (sidecar,) = (option for option in doctor.params if option.name == "sidecar")
    assert sidecar.default == f"http://{DEFAULT_LISTEN}"


def test_rings_without_a_sidecar_are_read_and_a_sidecar_is_advised(tmp_path: Path) -> None:
    with answering(ENGINE) as engine:
        recorder = Recorder(str(tmp_path), 1024)
        recorder.identify({"host": "127.0.0.1", "port": int(engine.rpartition(":")[2]), "seams": []})
        result = ask("--engine", engine, "--ring-dir", str(tmp_path), "--json")
        recorder.close()
    answered = json.loads(result.output)
    assert f"{NOBODY}/metrics does not answer" in answered["facts"]["recorded"]["no_sidecar"]
    advice = {finding["id"]: finding["do"] for finding in answered["findings"]}
    assert "hicache-witness serve" in advice["no-sidecar"]


def test_host_and_port_of_a_sidecar_are_its_address() -> None:
    with answering(ENGINE) as engine, answering(sidecar_of(engine)) as sidecar:
        assert ask("--engine", engine, "--sidecar", sidecar.removeprefix("http://")).exit_code == 0


def test_an_issue_without_a_public_report_says_who_saw_it() -> None:
    with answering(engine_with(internal_states=[{"hicache_storage_backend": "file"}])) as engine:
        output = " ".join(ask("--engine", engine).output.split())
    assert "crash /flush_cache can end the scheduler where L3 is attached" in output
    assert "(seen by us, no public report known)" in output


@pytest.mark.parametrize(("at_start", "now"), [(None, "file"), ("file", None)], ids=["attached", "detached"])
def test_storage_switched_after_the_start_is_seen(at_start: str | None, now: str | None) -> None:
    switched = engine_with(hicache_storage_backend=at_start, internal_states=[{"hicache_storage_backend": now}])
    with answering(switched) as engine:
        answered = json.loads(ask("--engine", engine, "--json").output)
    assert answered["facts"]["configuration"]["storage_backend"] == now


@pytest.mark.parametrize("seconds", ["nan", "inf", "0", "soon"])
def test_watching_for_no_length_of_time_is_refused(seconds: str) -> None:
    answered = ask("--engine", NOBODY, "--watch", seconds)
    assert (answered.exit_code, "--watch" in answered.output) == (2, True)


def test_watching_judges_only_what_happens_meanwhile(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("time.sleep", lambda seconds: None)
    with answering(ENGINE) as engine, answering(sidecar_of(engine)) as sidecar:
        answered = json.loads(ask("--engine", engine, "--sidecar", sidecar, "--watch", "60", "--json").output)
    assert (answered["facts"]["counted"]["since"], answered["facts"]["counted"]["load_back_tokens"]) == ("60 s ago", 0)


def test_a_probe_is_sent_only_when_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    unreliable = Probe(prompt_tokens=256, reply_cached_tokens=0, counted_cached_tokens=255)
    monkeypatch.setattr("hicache_proof.doctor.command.probe", lambda url, http: unreliable)
    with answering(ENGINE) as engine, answering(sidecar_of(engine)) as sidecar:
        assert ask("--engine", engine, "--sidecar", sidecar).exit_code == 0
        result = ask("--engine", engine, "--sidecar", sidecar, "--probe")
    assert result.exit_code == 1
    assert "the reply says 0, the engine counted 255 cached" in result.output


@pytest.mark.parametrize("watch", [(), ("--watch", "3")])
@pytest.mark.parametrize(("counted", "says"), [(255.0, "255 cached"), (None, "others' requests too, so can't tell")])
def test_what_is_counted_covers_the_probe_and_its_result_is_told(
    monkeypatch: pytest.MonkeyPatch, watch: tuple[str, ...], counted: float | None, says: str
) -> None:
    monkeypatch.setattr("time.sleep", lambda seconds: None)
    pages = dict(ENGINE)

    def probe(*_: object) -> Probe:
        pages["/metrics"] = re.sub(rb"(backup_tokens_total\S* )[\d.]+", rb"\g<1>1000256.0", pages["/metrics"])
        return Probe(prompt_tokens=256, reply_cached_tokens=255, counted_cached_tokens=counted)

    monkeypatch.setattr("hicache_proof.doctor.command.probe", probe)
    with answering(pages) as engine, answering(sidecar_of(engine)) as sidecar:
        before = json.loads(ask("--engine", engine, "--sidecar", sidecar, "--json").output)["facts"]["counted"]
        output = ask("--engine", engine, "--sidecar", sidecar, "--probe", *watch).output
    assert f"probe: a repeated prompt of 256 tokens: the reply says 255, the engine counted {says}" in output
    moved = 1_000_256 - (before["backup_tokens"] if watch else 0)
    assert f"{moved:,.0f} tokens backed up to L2" in output
