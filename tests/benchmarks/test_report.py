"""docs/performance.md is what the history says, and a missed target can't hide."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(autouse=True)
def benchmarks(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))


@pytest.fixture
def line():
    import form

    def make(value: float | None = 1.0, target: form.Target | None = None, **more: object) -> form.Line:
        met = None if target is None or value is None else target.met_by(value)
        given = {"name": "seam_cost", "figure": "a figure", "unit": "ms", "command": "python benchmarks/seam_cost.py"}
        fixed = {"machine": form.Machine("a processor", 2, "3.11"), "date": "2026-11-29"}
        return form.Line(**given | fixed | {"value": value, "target": target, "met": met} | more)

    return make


def test_what_is_committed_is_what_the_history_says() -> None:
    command = [sys.executable, str(ROOT / "benchmarks/report.py"), "--check"]
    checked = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert checked.returncode == 0, checked.stderr


def test_a_missed_target_is_shown_as_missed_in_the_summary_and_in_its_table(line) -> None:
    import form
    import report

    page = report.page([line(3.0, form.at_most(2))], {})
    assert "Of 1 figures with a target, 0 meet it, 1 miss it" in page
    assert page.count("**missed**") == 3  # summary, table, and how to read it
    assert "- **missed**: in the scheduler's thread, a figure: 3 ms, target ≤ 2" in page
    good = report.page([line(1.0, form.at_most(2))], {})
    assert "0 miss it." in good
    assert good.count("**missed**") == 1


def test_of_a_figure_the_newest_run_counts(line) -> None:
    import form
    import report

    page = report.page([line(3.0, form.at_most(2)), line(1.0, form.at_most(2))], {})
    assert "| a figure | 1 ms |" in page
    assert "| a figure | 3 ms |" not in page


def test_a_figure_that_says_nothing_is_no_figure_and_meets_nothing(line) -> None:
    import form
    import report

    page = report.page([line(None, form.at_most(2), note="too few rounds")], {})
    assert "0 meet it, 0 miss it, 1 say nothing" in page
    assert "| a figure | says nothing |" in page
    assert "too few rounds" in page


def test_a_run_on_a_loaded_machine_says_so(line) -> None:
    import report

    assert "loaded (1.5 cores)" in report.page([line(others_cores=1.5)], {})
    assert "loaded (" not in report.page([line(others_cores=0.1)], {})


def test_a_line_that_calls_a_missed_target_met_is_refused(line, tmp_path: Path) -> None:
    import form

    history = tmp_path / "history.jsonl"
    told = msgspec.structs.replace(line(3.0, form.at_most(2)), met=True)
    history.write_bytes(msgspec.json.encode(line()) + b"\n" + msgspec.json.encode(told) + b"\n")
    with pytest.raises(ValueError, match="line 2: says met=True, its numbers say False"):
        form.read(history)


def test_a_page_or_a_plot_of_another_history_is_noticed(line, tmp_path: Path) -> None:
    import form
    import plot
    import report

    lines = [line(3.0, form.at_most(2))]
    (tmp_path / "docs/pictures").mkdir(parents=True)
    assert len(report.drift(tmp_path, lines)) == 2
    (tmp_path / report.PAGE).write_text(report.page(lines, {}), "utf-8")
    plot.draw(lines, tmp_path / report.PLOT, f"data {report.digest(lines)}")
    assert report.drift(tmp_path, lines) == []
    assert len(report.drift(tmp_path, [*lines, line(4.0, form.at_most(2))])) == 2


def test_a_long_run_is_shown_field_by_field_and_figures_that_belong_together_in_a_row(line) -> None:
    import report

    page = report.page([line()], {"ring_flood": {"records_lost": 0, "memory": {"first": 71.25, "growth_mib": 0.5}}})
    assert "### ring flood" in page
    assert "| records lost | 0 |" in page
    assert "| memory | first 71.25, growth mib 0.5 |" in page


@pytest.mark.parametrize(("value", "shown"), [(0.0512, "0.0512"), (1.0, "1"), (12.345, "12.3"), (215_600.4, "215,600")])
def test_numbers_claim_no_precision_that_they_lack(value: float, shown: str) -> None:
    import form

    assert form.number(value) == shown


def test_a_figure_knows_how_it_was_taken_and_what_others_took_meanwhile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    import form

    history = tmp_path / "history.jsonl"
    monkeypatch.setattr(sys, "argv", ["benchmarks/seam_cost.py", "--requests", "7", "--history", str(history)])
    monkeypatch.chdir(ROOT)
    bench = form.Bench("seam_cost", history)
    bench.add("a figure", 3.14159265, "ms", form.at_most(3), percentiles={"p99": 4.0})
    assert bench.end() == 0
    (kept,) = form.read(history)
    assert (kept.value, kept.met, kept.percentiles) == (3.142, False, {"p99": 4.0})
    assert kept.command == "python benchmarks/seam_cost.py --requests 7"
    assert kept.machine.cores
    assert kept.others_cores is not None
    assert "MISSED" in capsys.readouterr().out


def test_what_is_kept_is_what_is_held_against_the_target(tmp_path: Path) -> None:
    import form

    history = tmp_path / "history.jsonl"
    bench = form.Bench("seam_cost", history)
    bench.add("just above, and kept with four digits", 0.20003, "%", form.at_most(0.2))
    bench.end()
    [kept] = form.read(history)
    assert (kept.value, kept.met) == (0.2, True)


def test_a_figure_that_counts_no_more_is_listed_with_the_reason_and_nowhere_else(line) -> None:
    import form
    import report

    lines = [line(3.0, form.at_most(2), retired="By a worse method"), line(1.0, figure="another")]
    page = report.page(lines, {})
    assert "Of 0 figures with a target, 0 meet it, 0 miss it." in page
    assert "By a worse method:\n\n| figure | value | target | date |" in page
    assert page.count("a figure |") == 1
    assert "| in the scheduler's thread, a figure | 3 ms | ≤ 2 | 2026-11-29 |" in page


def test_a_newer_run_by_the_same_name_counts_though_the_older_one_does_not(line) -> None:
    import form
    import report

    page = report.page([line(3.0, form.at_most(2), retired="wrong"), line(1.0, form.at_most(2))], {})
    assert "Of 1 figures with a target, 1 meet it, 0 miss it." in page


def test_raw_pairs_are_no_long_run(tmp_path: Path) -> None:
    import report

    (tmp_path / "soak.json").write_text('{"hours": 2}')
    (tmp_path / "overhead.json").write_text('{"asked": "so", "pairs": {}}')
    assert report.read_results(tmp_path) == {"soak": {"hours": 2}}


def test_figures_made_of_an_earlier_run_say_nothing_of_this_machines_load(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    import form

    history = tmp_path / "history.jsonl"
    monkeypatch.setattr(sys, "argv", ["benchmarks/engine_overhead.py"])
    for now in (True, False):
        bench = form.Bench("engine_overhead", history, now=now)
        bench.add("a figure", 1.0, "ms")
        bench.end()
    capsys.readouterr()
    measured, made = form.read(history)
    assert measured.others_cores is not None
    assert made.others_cores is made.load_average is None
