"""Nothing that an engine, a server or a file says steers the terminal that shows it."""

from __future__ import annotations

import io

import msgspec
import pytest
from click.testing import CliRunner
from rich.console import Console
from rich.table import Table

from hicache_proof.compare.command import command as compare
from hicache_proof.doctor.command import doctor
from hicache_proof.lab.command import lab
from hicache_proof.storage.command import storage
from hicache_proof.terminal import Terminal, plain, say

from .doctor.web import answering
from .lab import fake_engine
from .storage import fake_engine as fake_storage

TITLE = "\x1b]0;owned\x07"
RED = "\x1b[31m"
CSI = "\x9b2J"
BACKWARDS = "\u202egnp.exe"
STEERING = ("\x1b", "\x07", "\x9b", "\u202e", "\r", "\x08")


def shown(*printed) -> str:
    file = io.StringIO()
    console = Terminal(file=file, force_terminal=True, color_system="standard", width=60)
    for one in printed:
        console.print(one)
    return file.getvalue()


@pytest.mark.parametrize("text", [TITLE, RED, CSI, BACKWARDS, "a\rb", "a\x08b", "\x00", "\x7f"])
def test_what_steers_is_shown_as_something_that_was_there(text):
    assert not [mark for mark in STEERING if mark in plain(text)]
    assert "\N{REPLACEMENT CHARACTER}" in plain(text)


def test_other_text_stays_as_it_is():
    assert plain("L1\tL2\n日本, 東京 é") == "L1\tL2\n日本, 東京 é"


def test_a_line_is_plain(capsys):
    say(f"backend {TITLE}{RED}file")
    say(f"backend {RED}file", err=True)
    out, err = capsys.readouterr()
    assert "\x1b" not in out + err
    assert "file" in out
    assert "file" in err


def test_a_console_keeps_its_own_styles_and_no_other_escape():
    table = Table("engine")
    table.add_row(f"{TITLE}{CSI}hybrid")
    text = shown("[bold]own[/bold]", f"model {RED}x", table)
    assert "\x1b[1mown\x1b[0m" in text
    assert "\x1b[31m" not in text
    assert not [mark for mark in ("\x1b]", "\x07", "\x9b") if mark in text]


def test_without_it_the_same_text_would_pass():
    """What this guards against is real: rich itself lets it through."""
    file = io.StringIO()
    Console(file=file, force_terminal=True).print(f"model {RED}x", highlight=False)
    assert RED in file.getvalue()


HOSTILE = f"{TITLE}{RED}{CSI}file[/nothing]"
"""As a name that an engine gives; the end would be an error of rich's own markup."""


def lab_says(name: str, *arguments: str) -> str:
    engine = fake_engine.FakeEngine(eviction=name)
    with fake_engine.serving(engine) as url, fake_engine.sidecar_of(engine) as sidecar:
        return ask(lab, "--engine", url, "--sidecar", sidecar, *arguments)


def storage_says(name: str) -> str:
    engine = fake_storage.FakeEngine()
    engine.backends, engine.frontend = [name], name
    with fake_storage.serving(engine) as url:
        return ask(storage, "status", "--engine", url)


def doctor_says(name: str) -> str:
    info = {"version": name, "page_size": 1, "enable_hierarchical_cache": True, "hicache_write_policy": name}
    pages = {"/server_info": msgspec.json.encode(info), "/metrics": b"sglang:prompt_tokens_total 9\n"}
    with answering(pages) as url:
        return ask(doctor, "--engine", url, "--sidecar", "127.0.0.1:1", "--ring-dir", "/nowhere")


def refusal_says(name: str) -> str:
    engine = fake_engine.FakeEngine()
    engine.generate = lambda body: iter([{"error": {"message": name}}])
    with fake_engine.serving(engine) as url, fake_engine.sidecar_of(engine) as sidecar:
        return ask(lab, "--engine", url, "--sidecar", sidecar)


def ask(command, *arguments: str) -> str:
    result = CliRunner().invoke(command, arguments, catch_exceptions=False)
    return result.stdout + result.stderr


@pytest.mark.parametrize(
    "says",
    [lambda name: lab_says(name, "--dry-run"), lab_says, storage_says, doctor_says, refusal_says],
    ids=["lab --dry-run", "lab", "storage", "doctor", "a refusal"],
)
def test_names_that_an_engine_gives_steer_nothing(says):
    text = says(HOSTILE)
    assert "[/nothing]" in text
    assert not [mark for mark in ("\x1b", "\x07", "\x9b") if mark in text]


def test_a_file_steers_nothing(tmp_path):
    (tmp_path / "a.json").write_bytes(msgspec.json.encode({"schema": HOSTILE}))
    text = ask(compare, str(tmp_path / "a.json"), str(tmp_path / "a.json"))
    assert "can't be compared" in text
    assert "\x1b" not in text
