"""The command as a person meets it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
from click.testing import CliRunner, Result

from hicache_proof.compare.command import command
from hicache_proof.compare.side import read

from ..lab.fake_engine import FakeEngine
from ..report.conftest import run_against
from .reports import encoded, issued, run


@pytest.fixture
def ask(tmp_path: Path):
    def ask(a: bytes, b: bytes, *options: str) -> Result:
        for name, document in (("a", a), ("b", b)):
            (tmp_path / name).write_bytes(document)
        return CliRunner().invoke(command, [str(tmp_path / "a"), str(tmp_path / "b"), *options])

    return ask


WORSE = encoded(run(outcome={"verdict": "consistent"}))


def test_no_worse_exits_with_0_and_worse_with_1(ask) -> None:
    assert ask(encoded(run()), encoded(run())).exit_code == 0
    assert ask(WORSE, encoded(run())).exit_code == 0
    result = ask(encoded(run()), WORSE)
    assert result.exit_code == 1
    assert "B is worse: A corroborated (content intact), B consistent (content intact)" in result.output


@pytest.mark.parametrize("order", [1, -1], ids=["B", "A"])
def test_a_certificate_that_does_not_hold_fails_on_either_side(ask, order: int) -> None:
    good = issued()
    result = ask(*(good, good.replace(b'"verdict": "corroborated"', b'"verdict": "proven"'))[::order])
    assert result.exit_code == 1
    assert "does not hold, so which is worse can't be said" in result.output.splitlines()[0]
    assert "no worse" not in result.output


def test_rows_have_the_words_of_the_lab(ask) -> None:
    made = run()
    made["requests"] += [{**one, "series": name} for name in ("miss", "marker") for one in made["requests"][:3]]
    made["control"] = {"kind": "hicache_off", "requests": run()["requests"]}
    text = ask(encoded(made), encoded(made)).output
    for name in ("forced miss", "planted markers", "control (HiCache off)"):
        assert name in text
    assert "series miss" not in text


def test_the_page_has_the_tables(ask) -> None:
    text = ask(encoded(run()), encoded(run(read=(0.2, 0.201, 0.202), engine={"tp_size": 2}))).output
    for part in (
        "series C",
        "101.0 [100.0, 102.0] ms, n=3",
        "B / A",
        "1.99 [1.96, 2.02]: B slower",
        "tp_size",
        "149.5 KiB",
    ):
        assert part in text


def test_what_can_not_be_compared_is_said_first(ask) -> None:
    text = ask(encoded(run()), issued()).output
    assert "times are not comparable: B is a certificate" in text
    assert "not comparable" in text


def test_markdown_is_whole_tables_with_no_open_cell(ask) -> None:
    text = ask(encoded(run()), encoded(run(engine={"io_backend": "a|b"})), "--markdown").output
    assert text.startswith("## B is no worse")
    assert "| io_backend | kernel | a\\|b |" in text
    for block in text.split("\n\n"):
        rows = [line.replace("\\|", "") for line in block.splitlines() if line.startswith("|")]
        assert len({row.count("|") for row in rows}) <= 1


def test_json_holds_all_of_it(ask) -> None:
    told = json.loads(ask(encoded(run()), WORSE, "--json").output)
    assert (told["worse"], told["a"]["verdict"], told["b"]["verdict"]) == (True, "corroborated", "consistent")
    assert told["times"][1]["change"]["says"] == "no_difference"


def test_a_file_that_is_not_there_or_no_result_is_one_sentence(ask, tmp_path: Path) -> None:
    result = CliRunner().invoke(command, [str(tmp_path / "gone"), str(tmp_path / "gone")])
    assert (result.exit_code, result.stdout) == (2, "")
    assert "No such file" in result.stderr
    result = ask(encoded(run()), b"{}")
    assert (result.exit_code, result.stderr.count("\n")) == (2, 1)
    assert "neither the report.json nor the certificate.json" in result.stderr


def test_two_forms_at_once_are_wrong_usage(ask) -> None:
    assert "not both" in ask(encoded(run()), WORSE, "--json", "--markdown").stderr


def test_what_the_lab_writes_today_can_be_read() -> None:
    made: Any = run_against(FakeEngine(), sidecar=False)
    side = read(msgspec.json.encode(made))
    assert (side.verdict, side.kind) == (made.outcome.verdict, "lab run")
    assert {"A", "B", "C", "D", "miss"} <= set(side.times)
    assert side.times["C"] == pytest.approx([one.reply.ttft_seconds for one in made.of("C")])
