"""The page and the configuration files for a fleet speak of what there is."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest
import yaml

from hicache_exporter import names
from hicache_exporter.core import span_names

ROOT = Path(__file__).resolve().parents[2]
FLEET = ROOT / "deploy" / "fleet"


@pytest.fixture(autouse=True)
def benchmarks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))


def lines(**values: float):
    import fleet_page
    import form

    known = dict.fromkeys(fleet_page.NAMES, 1.0) | values
    return [
        form.Line(
            name="fleet", figure=fleet_page.NAMES[name], value=value, unit="", command="c", date="2026-11-29",
            machine=form.Machine(),
        )
        for name, value in known.items()
    ]  # fmt: skip


def test_the_fleet_is_the_measured_engine_times_a_thousand() -> None:
    import fleet_page

    table = fleet_page.rendered(lines(series=960.0, memory=5000.0))
    assert "| series, 8 ranks on 8 GPUs | 960 | 960,000 |" in table
    assert "| samples a second, a scrape every 15 s | 64 | 64,000 |" in table
    assert "| Prometheus, resident memory | 4.8 MB | 4.8 GB |" in table


def test_a_figure_that_was_never_taken_is_no_zero() -> None:
    import fleet_page

    with pytest.raises(ValueError, match="series of an engine"):
        fleet_page.rendered(lines()[1:])


def test_the_collector_keeps_verdicts_that_there_are() -> None:
    gateway = yaml.safe_load((FLEET / "otel-collector-gateway.yaml").read_text("utf-8"))
    policies = gateway["processors"]["tail_sampling"]["policies"]
    kept = {one["string_attribute"]["key"]: set(one["string_attribute"]["values"]) for one in policies
            if one["type"] == "string_attribute"}  # fmt: skip
    assert kept.keys() == {span_names.VERDICT, span_names.CONTENT}
    assert kept[span_names.VERDICT] < set(names.VERDICTS)
    assert {"contradicted", "not_observed"} <= kept[span_names.VERDICT]
    assert kept[span_names.CONTENT] == {"damaged"}
    assert kept[span_names.CONTENT] < set(names.CONTENT_STATES)


@pytest.mark.parametrize("name", ["otel-collector-node", "otel-collector-gateway"])
def test_a_pipeline_uses_what_its_file_defines(name: str) -> None:
    config = yaml.safe_load((FLEET / f"{name}.yaml").read_text("utf-8"))
    for pipeline in config["service"]["pipelines"].values():
        for part in ("receivers", "processors", "exporters"):
            assert set(pipeline[part]) == set(config[part])


@pytest.mark.stack
@pytest.mark.parametrize(("name", "mode"), [("prometheus-agent", ["--agent"]), ("prometheus-thanos", [])])
def test_prometheus_reads_the_files(name: str, mode: list[str], tmp_path: Path) -> None:
    shutil.copy(FLEET / f"{name}.yaml", tmp_path)
    for folder in ("targets", "rules"):
        (tmp_path / folder).mkdir()
    (tmp_path / "targets" / "hicache-witness.yaml").write_text("[]")
    rules = ROOT / "dashboards" / "generated" / "prometheus"
    for path in rules.glob("*.yaml"):
        shutil.copy(path, tmp_path / "rules")
    command = ["promtool", "check", "config", *mode, str(tmp_path / f"{name}.yaml")]
    checked = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert checked.returncode == 0, checked.stderr
