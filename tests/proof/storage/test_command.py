"""The command against an engine whose parts can fail: done, in part, refused, not possible."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from hicache_proof.storage import work
from hicache_proof.storage.command import storage
from hicache_tracing.recorder import Recorder
from hicache_tracing.records import SeamState

from .fake_engine import ADMIN_KEY, FakeEngine, serving

SEAM = "UnifiedRadixCache.attach_storage_backend"


@pytest.fixture(autouse=True)
def hurry(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, seconds in (("WATCH_SECONDS", 0.02), ("PAUSE_SECONDS", 0.01), ("PATIENCE_SECONDS", 0.1)):
        monkeypatch.setattr(work, name, seconds)


@pytest.fixture
def ask(tmp_path: Path):
    def ask(action: str, engine: FakeEngine, *arguments: str, key: str | None = ADMIN_KEY) -> Result:
        keys = []
        if key is not None:
            (tmp_path / "key").write_text(f"{key}\n")
            keys = ["--admin-key-file", str(tmp_path / "key")]
        with serving(engine) as url:
            given = [action, "--engine", url, "--ring-dir", str(tmp_path), *keys, *arguments]
            return CliRunner().invoke(storage, given, catch_exceptions=False)

    return ask


def told(result: Result) -> dict[str, Any]:
    return json.loads(result.stdout)


def test_attach_reaches_every_replica_and_says_that_no_recorder_tells_of_the_ranks(ask) -> None:
    engine = FakeEngine(replicas=2)
    result = ask("attach", engine, "--backend", "file", "--prefetch-policy", "timeout", "--extra-config", "{}")
    assert result.exit_code == 0
    assert "L3 is attached, as 2 replicas say; no recorder tells of each rank" in result.output
    assert engine.switches == [
        (
            "PUT",
            {
                "hicache_storage_backend": "file",
                "hicache_storage_backend_extra_config_json": "{}",
                "hicache_storage_prefetch_policy": "timeout",
            },
        )
    ]


def test_detach_reaches_every_replica(ask) -> None:
    engine = FakeEngine(replicas=2)
    engine.backends = ["file", "file"]
    result = ask("detach", engine)
    assert (result.exit_code, engine.backends) == (0, [None, None])


def test_a_part_that_failed_is_named_and_is_no_success(ask) -> None:
    engine = FakeEngine(replicas=3)
    engine.broken = {1}
    result = ask("attach", engine, "--backend", "file", "--json")
    report = told(result)
    assert result.exit_code == 1
    assert (report["state"], report["done"]) == ("mixed", False)
    assert report["says"] == "attached in part only: replica 1 has none"
    assert "storage detach" in report["do"]
    assert report["answers"] == ["attached | Failed to attach: disk full | attached"]


def test_a_detach_in_part_is_told_as_such(ask) -> None:
    engine = FakeEngine(replicas=2)
    engine.backends, engine.broken = ["file", "file"], {0}
    result = ask("detach", engine)
    assert result.exit_code == 1
    assert "detached in part only: replica 0 has file" in result.output


def test_what_failed_everywhere_is_not_in_part(ask) -> None:
    engine = FakeEngine(replicas=2)
    engine.broken = {0, 1}
    result = ask("attach", engine, "--backend", "file", "--json")
    assert (result.exit_code, told(result)["state"]) == (1, "detached")
    assert told(result)["says"].startswith("not attached")


def test_an_engine_that_says_yes_and_did_nothing_is_found_out(ask) -> None:
    engine = FakeEngine()
    engine.switch = lambda *_: (200, "HiCache storage backend attached.\n")  # type: ignore[method-assign]
    result = ask("attach", engine, "--backend", "file", "--json")
    assert (result.exit_code, told(result)["done"]) == (1, False)
    assert "does not answer as SGLang does" in told(result)["facts"]["frontend_missing"]


def test_an_engine_that_says_yes_and_tells_nothing_of_its_schedulers_is_not_believed(ask) -> None:
    result = ask("attach", FakeEngine(replicas=0), "--backend", "file", "--json")
    assert (result.exit_code, told(result)["state"]) == (1, "unknown")


def test_copies_under_way_are_waited_for(ask) -> None:
    engine = FakeEngine()
    engine.not_idle = 2
    result = ask("attach", engine, "--backend", "file")
    assert (result.exit_code, len(engine.switches)) == (0, 3)


def test_copies_that_do_not_end_are_given_up(ask) -> None:
    engine = FakeEngine()
    engine.not_idle = 10_000
    result = ask("attach", engine, "--backend", "file")
    assert result.exit_code == 1
    assert "scheduler is not idle" in result.output


@pytest.mark.parametrize("action", [("attach", "--backend", "file"), ("detach",)])
def test_traffic_is_refused_and_shown(ask, action: tuple[str, ...]) -> None:
    engine = FakeEngine(replicas=2)
    engine.running = 3
    result = ask(action[0], engine, *action[1:])
    assert result.exit_code == 2
    assert "is serving others (replica 0: 3 running; replica 1: 3 running)" in result.stderr
    assert engine.switches == []


def test_an_older_engine_tells_its_load_by_another_path(ask) -> None:
    engine = FakeEngine()
    engine.old, engine.running = True, 1
    assert "replica 0: 1 running, 2 waiting" in ask("detach", engine).stderr


def test_requests_too_short_to_be_seen_running_are_traffic_too(ask) -> None:
    engine = FakeEngine()
    engine.finishes_a_look = 4.0
    result = ask("detach", engine)
    assert result.exit_code == 2
    assert "4 requests ended within" in result.stderr
    assert engine.switches == []


def test_status_shows_traffic_and_does_not_mind_it(ask) -> None:
    engine = FakeEngine()
    engine.running = 1
    result = ask("status", engine)
    assert result.exit_code == 0
    assert "replica 0: 1 running" in result.output
    assert engine.switches == []


def test_status_needs_no_key_and_says_what_it_then_lacks(ask) -> None:
    result = ask("status", FakeEngine(), key=None)
    assert result.exit_code == 0
    assert "no L3 is attached" in result.output
    assert "--admin-key-file" in result.output


def test_status_tells_the_schedulers_state_and_not_that_of_the_start(ask) -> None:
    engine = FakeEngine()
    engine.backends = ["mooncake"]
    assert "L3 is attached: mooncake" in ask("status", engine).output


def test_status_of_replicas_that_differ_exits_with_1(ask) -> None:
    engine = FakeEngine(replicas=2)
    engine.backends = ["file", None]
    result = ask("status", engine, "--json")
    assert (result.exit_code, told(result)["state"]) == (1, "mixed")
    assert told(result)["says"] == "the ranks do not agree: replica 0 has file; replica 1 has none"


@pytest.mark.parametrize(
    ("changes", "key", "says"),
    [
        ({"has_api": False}, ADMIN_KEY, "can't attach or detach L3 while it runs"),
        ({"admin_key": None}, ADMIN_KEY, "was started without --admin-api-key"),
        ({}, "wrong", "does not take this key (401)"),
        ({}, None, "does not take this key (401)"),
    ],
)
def test_what_is_not_possible_is_one_sentence(ask, changes: dict[str, Any], key: str | None, says: str) -> None:
    engine = FakeEngine()
    for name, value in changes.items():
        setattr(engine, name, value)
    result = ask("attach", engine, "--backend", "file", key=key)
    assert (result.exit_code, result.stdout) == (2, "")
    assert says in result.stderr
    assert result.stderr.count("\n") == 1


def test_without_hicache_there_is_no_l3(ask) -> None:
    result = ask("attach", FakeEngine(enable_hierarchical_cache=False), "--backend", "file")
    assert result.exit_code == 2
    assert "--enable-hierarchical-cache" in result.stderr


def test_the_status_of_an_engine_without_hicache_says_just_that(ask) -> None:
    off = FakeEngine(enable_hierarchical_cache=False)
    off.admin_key = None
    output = ask("status", off, key=None).output
    assert "HiCache is off: without L2 there is no L3" in output
    assert "-> Restart it with --enable-hierarchical-cache." in output
    assert "--admin-api-key" not in output
    assert "write_through" not in output
    report = told(ask("status", off, "--json"))
    assert (report["state"], report["facts"]["hicache"], report["facts"]["frontend"]) == ("detached", False, None)


def test_an_answer_that_is_nested_too_deeply_is_one_sentence(ask) -> None:
    strange = FakeEngine()
    strange.get = lambda _path: (200, '{"x": ' + "[" * 100_000)  # type: ignore[method-assign]
    result = ask("status", strange)
    assert (result.exit_code, result.stderr.count("\n")) == (2, 1)
    assert "what /server_info answers is not SGLang's" in result.stderr


def test_no_engine_is_one_sentence_and_json_has_it_too(ask) -> None:
    gone = FakeEngine()
    gone.get = lambda _path: (404, "")  # type: ignore[method-assign]
    result = ask("status", gone, "--json")
    assert result.exit_code == 2
    assert "is no SGLang server: /server_info answers 404" in told(result)["error"]


def test_an_older_engine_is_known_by_its_older_path_and_told_that_it_can_not(ask) -> None:
    old = FakeEngine()
    new, old.has_api = old.get, False
    paths = {"/server_info": "/nowhere", "/get_server_info": "/server_info"}
    old.get = lambda path: new(paths.get(path, path))  # type: ignore[method-assign]
    assert "can't attach or detach L3 while it runs" in ask("detach", old).stderr


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("attach",), "attach needs --backend"),
        (("detach", "--backend", "file"), "are for attach, not for detach"),
        (("status", "--prefetch-policy", "timeout"), "are for attach, not for status"),
    ],
)
def test_wrong_usage_is_told_before_anything_is_asked(arguments: tuple[str, ...], says: str) -> None:
    result = CliRunner().invoke(storage, [*arguments, "--engine", "127.0.0.1:1"])
    assert result.exit_code == 2
    assert says in result.stderr


def test_no_key_of_the_engine_is_ever_shown(ask) -> None:
    for arguments in ((), ("--json",)):
        assert "planted" not in ask("status", FakeEngine(), *arguments).output


def test_ranks_that_nobody_watches_are_told(ask, tmp_path: Path) -> None:
    recorder = Recorder(str(tmp_path), 1024)
    engine = FakeEngine(tp_size=4)
    engine.backends = ["file"]
    with serving(engine) as url:
        port = int(url.rpartition(":")[2])
        recorder.identify({"host": "127.0.0.1", "port": port, "tp_size": 4, "tp_rank": 0, "seams": [SEAM]})
        recorder.seam(0, SeamState.ATTACHED, False, 0)
        result = CliRunner().invoke(storage, ["status", "--engine", url, "--ring-dir", str(tmp_path)])
    recorder.close()
    assert "3 more here without a recorder that watches storage" in result.output


def test_what_the_engine_says_is_shown_as_it_is(ask) -> None:
    engine = FakeEngine()
    engine.backends, engine.frontend = ["[red]file[/]"], "[/]"
    result = ask("status", engine)
    assert result.exit_code == 0
    assert "replica 0  [red]file[/]" in result.output


def test_ctrl_c_says_that_the_engine_may_go_on(ask, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(work, "switch", interrupted)
    result = ask("attach", FakeEngine(), "--backend", "file")
    assert result.exit_code == 130
    assert "it may still do" in result.stderr
