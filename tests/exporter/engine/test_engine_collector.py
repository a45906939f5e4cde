"""The engine's part of a whole scrape: golden files of several versions, and what must vanish when an engine is gone.

After a wanted change, refresh the golden files with ``UPDATE_GOLDEN=1 pytest tests/exporter/engine`` and read the diff.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry
from prometheus_client.exposition import generate_latest
from prometheus_client.openmetrics.exposition import generate_latest as generate_openmetrics
from prometheus_client.openmetrics.parser import text_string_to_metric_families as openmetrics_families
from prometheus_client.parser import text_string_to_metric_families

from hicache_exporter import names
from hicache_exporter.collectors.engine import EngineCollector
from hicache_exporter.collectors.engine_targets import EngineTargetsCollector
from hicache_exporter.core.engine_reading import EngineReading
from hicache_exporter.core.engine_report import EngineTracker
from hicache_exporter.sources.targets import Targets, parse_target

from .samples import ENGINE, LATEST, RECORDED, info_of, labelled_by_rank, metrics_of, reading, report, summed_over_ranks

GOLDEN = Path(__file__).parents[2] / "golden"
PROMTOOL = shutil.which("promtool")


def page(*reports, collector=None, generate=generate_latest) -> str:
    registry = CollectorRegistry()
    registry.register(collector or EngineCollector(lambda: reports))
    return generate(registry).decode()


def down(reason: str) -> EngineReading:
    return EngineReading(ENGINE, 0.25, reason)


def recorded(name: str):
    return report(metrics_of(name), info_of(name))


SCRAPES = {
    **{f"engine-{name}": (lambda name=name: [recorded(name)]) for name in RECORDED},
    "engine-tp4-summed": lambda: [
        report(summed_over_ranks(metrics_of("0.5.20-cpu"), 4), info_of("0.5.20-cpu", tp_size=4))
    ],
    "engine-tp4-labelled": lambda: [report(labelled_by_rank(metrics_of(LATEST), 4), info_of(LATEST, tp_size=4))],
    "engine-without-server-info": lambda: [report(metrics_of("0.5.20-cpu"), None)],
    "engine-down": lambda: [EngineTracker().take(down("refused"))],
    "engine-without-metrics": lambda: [EngineTracker().take(down("not_found"))],
}


@pytest.mark.parametrize("name", SCRAPES)
def test_a_whole_scrape_is_the_golden_one(name):
    text, file = page(*SCRAPES[name]()), GOLDEN / f"{name}.txt"
    if os.environ.get("UPDATE_GOLDEN"):
        file.write_text(text, encoding="utf-8")
    assert text == file.read_text(encoding="utf-8"), f"{file.name} differs: UPDATE_GOLDEN=1 refreshes it"


def test_no_golden_file_is_left_over():
    assert {file.stem for file in GOLDEN.glob("engine-*.txt")} == set(SCRAPES)


@pytest.mark.skipif(PROMTOOL is None, reason="promtool comes with Debian's prometheus")
@pytest.mark.parametrize("name", SCRAPES)
def test_promtool_has_nothing_to_say(name):
    text = page(*SCRAPES[name]())
    checked = subprocess.run([PROMTOOL, "check", "metrics"], input=text, capture_output=True, text=True, timeout=30)
    assert (checked.returncode, checked.stdout, checked.stderr) == (0, "", "")


@pytest.mark.parametrize("name", SCRAPES)
def test_both_formats_can_be_read_back_and_hold_only_declared_families(name):
    reports = SCRAPES[name]()
    text = {family.name: family for family in text_string_to_metric_families(page(*reports))}
    strict = {family.name: family for family in openmetrics_families(page(*reports, generate=generate_openmetrics))}
    for family_name, family in strict.items():
        declared = names.FAMILIES[family_name]
        assert (family.type, family.documentation, family.unit) == (declared.type, declared.help, declared.unit)
        for sample in family.samples:
            assert set(sample.labels) - {"le"} == {"engine", *declared.labels}
    assert {n.removesuffix("_info") for n in text} == set(strict)


def test_no_name_has_a_colon_and_no_sample_a_timestamp():
    for family in text_string_to_metric_families(page(recorded(LATEST))):
        for sample in family.samples:
            assert ":" not in sample.name
            assert sample.timestamp is None


def test_when_an_engine_is_gone_all_that_it_said_is_gone_in_the_same_answer():
    tracker = EngineTracker()
    up = page(tracker.take(reading(metrics_of(LATEST), info_of(LATEST))))
    gone = page(tracker.take(down("timeout")))
    assert f'hicache_engine_up{{engine="{ENGINE}"}} 1.0' in up
    assert f'hicache_engine_up{{engine="{ENGINE}"}} 0.0' in gone
    assert f'hicache_engine_scrape_failures_total{{engine="{ENGINE}",reason="timeout"}} 1.0' in gone
    assert {family.name for family in text_string_to_metric_families(gone)} == {
        "hicache_engine_up",
        "hicache_engine_scrape_duration_seconds",
        "hicache_engine_scrape_failures",
        "hicache_engine_server_info_up",
        "hicache_engine_restarts",
        "hicache_engine_backward_steps",
    }


def test_failures_are_there_at_zero_before_the_first_one():
    assert f'hicache_engine_scrape_failures_total{{engine="{ENGINE}",reason="timeout"}} 0.0' in page(recorded(LATEST))


def test_an_engine_without_metrics_names_the_flag():
    text = page(EngineTracker().take(down("not_found")))
    assert f'hicache_engine_family_missing{{engine="{ENGINE}",family="sglang:*",flag="--enable-metrics"}} 1.0' in text


@pytest.mark.parametrize("name", RECORDED)
def test_the_hit_rate_gauge_appears_nowhere(name):
    assert "hit_rate" not in page(recorded(name))


def test_engines_share_families_and_keep_their_series_apart():
    other = EngineTracker().take(EngineReading("gpu2:30000", 0.1, "refused"))
    text = page(recorded(LATEST), other)
    assert text.count("# TYPE hicache_engine_up gauge") == 1
    assert 'hicache_engine_up{engine="gpu2:30000"} 0.0' in text
    assert 'hicache_engine_cached_tokens_total{engine="gpu2:30000"' not in text


def test_the_same_reports_give_the_same_page_twice():
    reports = (recorded(LATEST),)
    assert page(*reports) == page(*reports)


def test_labels_of_the_targets_file_and_its_health(tmp_path):
    file = tmp_path / "t.yml"
    file.write_text("- targets: [gpu1:30000]\n  labels: {cluster: a}\n")
    targets = Targets([parse_target("gpu2:30000")], [file])
    targets.current()
    text = page(collector=EngineTargetsCollector(targets))
    assert 'hicache_engine_target_info{cluster="a",engine="gpu1:30000"} 1.0' in text
    assert 'hicache_engine_target_info{engine="gpu2:30000"} 1.0' in text
    assert f'hicache_engine_targets_file_ok{{file="{file}"}} 1.0' in text
    file.write_text("[{")
    text = page(collector=EngineTargetsCollector(targets))
    assert f'hicache_engine_targets_file_ok{{file="{file}"}} 0.0' in text
    assert 'engine="gpu1:30000"' in text
