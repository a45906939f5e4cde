"""Pages that are generated from the code say what the code says."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


def build(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(ROOT / "docs/build.py"), *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)


@pytest.fixture
def generators(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.syspath_prepend(str(ROOT / "docs"))
    import generators.alerts
    import generators.build
    import generators.certificate
    import generators.compatibility
    import generators.demo
    import generators.h200
    import generators.markdown
    import generators.settings
    import generators.spans
    import generators.website

    return generators


def test_what_is_committed_is_what_the_code_says() -> None:
    checked = build("--check")
    assert checked.returncode == 0, checked.stderr


def test_drift_names_each_file_that_is_missing_or_out_of_date(generators, tmp_path: Path) -> None:
    (tmp_path / "same.md").write_text("same")
    (tmp_path / "old.md").write_text("old")
    expected = {Path("same.md"): "same", Path("old.md"): "new", Path("none.md"): "new"}
    assert generators.build.drift(tmp_path, expected) == ["old.md: out of date", "none.md: missing"]


def test_a_marked_part_is_replaced_and_the_rest_of_the_page_kept(generators) -> None:
    page = "before\n<!-- x:begin -->\nold\n<!-- x:end -->\nafter\n"
    assert generators.markdown.between(page, "x", "new\n") == page.replace("old", "new")


def test_a_page_without_the_mark_is_an_error_and_not_a_page_without_the_table(generators) -> None:
    with pytest.raises(ValueError, match="no part marked x"):
        generators.markdown.between("before", "x", "new")


def test_a_release_that_recorded_no_evictions_gets_a_no(generators) -> None:
    row = {
        "release": "0.5.9", "tree": "HiRadixCache", "core": None, "timed": [], "content": "full",
        "kinds": [1, 2, 3, 6, 7, 10],
    }  # fmt: skip
    last = generators.compatibility.rendered([row]).splitlines()[-1]
    assert last == "| 0.5.9 | HiRadixCache | `launch` | yes | yes | yes | yes | no | full | none |"


def test_a_release_whose_content_was_never_compared_does_not_claim_it(generators) -> None:
    row = {
        "release": "0.5.23",
        "tree": "UnifiedRadixCache",
        "core": "RustUnifiedTreeCore",
        "timed": ["backups", "loads"],
    }
    last = generators.compatibility.rendered([{**row, "content": "full", "kinds": [1]}]).splitlines()[-1]
    assert last.startswith("| 0.5.23 | UnifiedRadixCache, Rust core | plugin | yes | no |")
    assert last.endswith("| no | loads and backups |")


def test_releases_are_in_the_order_of_their_numbers(generators, tmp_path: Path) -> None:
    for release in ("0.5.10", "0.5.9", "0.5.23"):
        (tmp_path / f"{release}.json").write_text(f'{{"release": "{release}"}}')
    assert [row["release"] for row in generators.compatibility.read(tmp_path)] == ["0.5.9", "0.5.10", "0.5.23"]


def test_every_switch_that_the_plugin_reads_is_explained(generators) -> None:
    source = (ROOT / "tracing_patch/hicache_tracing/config.py").read_text("utf-8")
    read = {name for name in generators.settings.PLUGIN if f'"{name}"' in source}
    assert read == set(generators.settings.PLUGIN) - {"HICACHE_WITNESS"}
    assert source.count('get("HICACHE_WITNESS') == len(read)


def test_every_alert_has_the_runbook_that_its_line_links(generators) -> None:
    linked = [
        line.partition("](")[2].partition(")")[0]
        for line in generators.alerts.rendered().splitlines()
        if "](../" in line
    ]
    assert len(linked) > 20
    assert [target for target in linked if not (ROOT / "docs/reference" / target).exists()] == []


def test_on_the_site_a_link_leads_from_where_the_page_is_there(generators) -> None:
    moved = generators.website.moved
    assert moved("[a](docs/concepts.md#witnesses)", "overview.md") == "[a](concepts.md#witnesses)"
    assert moved("[a](../../README.md)", "guides/gpu.md") == "[a](../overview.md)"
    assert moved("[a](dashboards/runbooks)", "overview.md") == "[a](dashboards/runbooks/README.md)"
    assert (
        moved("[![p](docs/pictures/x.png)](docs/tutorial.md)", "overview.md") == "[![p](pictures/x.png)](tutorial.md)"
    )


def test_on_the_site_what_is_no_page_is_no_link(generators) -> None:
    assert generators.website.moved("the [schema](proof/x.json), [b](https://b.example)", "overview.md") == (
        "the schema, [b](https://b.example)"
    )


def test_every_attribute_of_our_spans_is_shown_on_a_recorded_request(generators) -> None:
    from hicache_exporter.core import span_names

    shown = generators.spans.rendered()
    names = {value for name, value in vars(span_names).items() if name.isupper() and isinstance(value, str)}
    assert len(names) > 25
    assert {name for name in names if f"`{name}`" not in shown and f"## {name}" not in shown} == set()


def test_a_field_of_the_certificate_has_the_words_of_the_code(generators) -> None:
    shown = generators.certificate.rendered()
    assert "| `at` | string or null | yes | When it was admitted, RFC 3339; None: not known. |" in shown
    assert "| `transfers` | list of [Transfer](#transfer) or null |" in shown


def test_the_planted_row_is_in_the_report_of_the_h200s(generators) -> None:
    damaged = [line for line in generators.h200.reads().splitlines() if "on purpose" in line]
    assert len(damaged) == 2
    assert all("| **1** |" in line and line.endswith("| damaged |") for line in damaged)


def test_every_page_that_shows_the_demo_has_the_place_for_it(generators) -> None:
    for page, parts in generators.demo.PAGES.items():
        for part in parts:
            shown = generators.markdown.between((ROOT / page).read_text("utf-8"), f"demo-{part}", "anew")
            assert f"<!-- demo-{part}:begin -->\nanew\n" in shown
