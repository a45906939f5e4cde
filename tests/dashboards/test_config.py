"""Thresholds and windows: one file, typed, and variants of it from the command line."""

from __future__ import annotations

import pytest
import yaml
from click.testing import CliRunner

from hicache_dashboards import config
from hicache_dashboards.command import rules


def test_an_override_is_read_as_its_type() -> None:
    settings = config.load(["ttft.regression=2", "windows.trend=10m"])
    assert (settings.ttft.regression, settings.windows.trend) == (2.0, "10m")


@pytest.mark.parametrize(
    ("override", "said"),
    [
        ("ttft.regresion=2", "there is no setting 'ttft.regresion'"),
        ("ttft.regression=slow", "$.ttft.regression"),
        ("windows.trend=soon", "$.windows.trend"),
        ("hit_rate.drop=1.5", "$.hit_rate.drop"),
        ("ttft.target_seconds=0.9", "must be a bucket bound"),
        ("regression", "not of the form section.key=value"),
        ("nosuch=1", "--list prints all"),
    ],
)
def test_a_wrong_override_is_refused_and_named(override: str, said: str) -> None:
    result = CliRunner().invoke(rules, ["--set", override])
    assert result.exit_code == 2
    assert said in result.output
    assert "Traceback" not in result.output


def test_the_command_renders_a_variant() -> None:
    printed = CliRunner().invoke(rules, ["--set", "ttft.regression=7.5", "--only", "alerts"]).output
    alerts = {rule["alert"]: rule for group in yaml.safe_load(printed)["groups"] for rule in group["rules"]}
    assert "> 7.5 * hicache:ttft_seconds" in alerts["HiCacheTtftRegressed"]["expr"]


def test_the_command_lists_the_thresholds_with_their_meaning() -> None:
    assert "regression = 1.5          # times the baseline" in CliRunner().invoke(rules, ["--list"]).output


def test_all_is_recordings_and_alerts() -> None:
    printed = yaml.safe_load(CliRunner().invoke(rules, []).output)
    kinds = {
        kind for group in printed["groups"] for rule in group["rules"] for kind in ("record", "alert") if kind in rule
    }
    assert kinds == {"record", "alert"}
