"""Each alert against promtool: when it fires and with what words, and when it stays silent.

The cases are in ``alerts/*.yaml``, one sample a minute. A series there gets the labels of one sidecar and one engine.
"""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from hicache_dashboards import config, rulefile
from hicache_dashboards.alerts.groups import alert_groups
from hicache_dashboards.promql import has_engine
from hicache_dashboards.rules.groups import recording_groups
from hicache_exporter.names import FAMILIES, Family

SITUATIONS = {"fires", "quiet", "no traffic", "restart", "missing data"}
SHORT = (
    *("windows.recent=3m", "windows.trend=10m", "windows.baseline=30m", "windows.season=1h"),
    *("windows.sustained=2m", "windows.brief=1m", "windows.event=5m", "l2.yield_window=30m"),
    *("burn.fast_long=20m", "burn.fast_short=3m", "burn.slow_long=60m", "burn.slow_short=10m"),
)
"""The variant under test: hours become minutes, so that a case is a few samples long."""
TARGET = {"job": "hicache-witness", "instance": "host:9838"}
ENGINE = {**TARGET, "engine": "host:30000"}

CASES = {
    alert: cases
    for path in sorted((Path(__file__).parent / "alerts").glob("*.yaml"))
    for alert, cases in yaml.safe_load(path.read_text()).items()
}
NAMED = {
    f"{alert}: {case['when']}" + (f", {case['story']}" if "story" in case else ""): (alert, case)
    for alert, cases in CASES.items()
    for case in cases
}
ALERTS = {alert.name for alerts in alert_groups(config.load()).values() for alert in alerts}


def test_every_alert_has_a_case_for_each_situation() -> None:
    situations = {alert: {case["when"] for case in cases} for alert, cases in CASES.items()}
    assert situations == dict.fromkeys(ALERTS, SITUATIONS)


def test_cases_have_names_of_their_own() -> None:
    assert len(NAMED) == sum(len(cases) for cases in CASES.values())


@pytest.fixture(scope="module")
def failures(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Name of a failed case to promtool's words; one run of promtool for all cases."""
    return _promtool(_rules_by_alert(config.load(SHORT)), tmp_path_factory.mktemp("promtool"))


def _promtool(rules: dict[str, list[dict[str, Any]]], folder: Path) -> dict[str, str]:
    if shutil.which("promtool") is None:
        pytest.skip("promtool is not installed (Debian: prometheus)")
    for alert in rules:
        tests = [_test(rules[alert], name) for name, (of, _) in NAMED.items() if of == alert]
        rule_file = {"groups": [{"name": "all", "rules": rules[alert]}]}
        test_file = {"rule_files": [f"{alert}.rules"], "evaluation_interval": "1m", "tests": tests}
        (folder / f"{alert}.rules").write_text(yaml.safe_dump(rule_file))
        (folder / f"{alert}.test").write_text(yaml.safe_dump(test_file, width=10**6))
    command = ["promtool", "test", "rules", *(f"{alert}.test" for alert in rules)]
    run = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=240, check=False)
    blocks = re.split(r"^ *name: (.*),\n", run.stdout + run.stderr, flags=re.M)
    failed = dict(zip(blocks[1::2], blocks[2::2], strict=True))
    assert (run.returncode == 0) == (not failed), run.stdout + run.stderr
    return failed


def _rules_by_alert(settings: config.Settings) -> dict[str, list[dict[str, Any]]]:
    """Each alert with just the recorded series that it reads, directly or through another one."""
    recordings = {
        rule["record"]: rule for group in rulefile.recording_file(settings)["groups"] for rule in group["rules"]
    }
    by_alert: dict[str, list[dict[str, Any]]] = {}
    for group in rulefile.alert_file(settings)["groups"]:
        for rule in group["rules"]:
            by_alert.setdefault(rule["alert"], []).append(rule)
    for rules in by_alert.values():
        needed = set(_reads(rules))
        while (more := set(_reads([recordings[name] for name in needed]))) - needed:
            needed |= more
        rules[:0] = [rule for name, rule in recordings.items() if name in needed]
    return by_alert


def _reads(rules: list[dict[str, Any]]) -> list[str]:
    texts = [rule["expr"] + " " + rule.get("annotations", {}).get("summary", "") for rule in rules]
    return re.findall(r"hicache:\w+:\w+", " ".join(texts))


@pytest.mark.parametrize("name", NAMED)
def test_alert(name: str, failures: dict[str, str]) -> None:
    assert name not in failures, failures[name]


def _test(rules: list[dict[str, Any]], name: str) -> dict[str, Any]:
    alert, case = NAMED[name]
    unquoted = [values for values in case["series"].values() if not isinstance(values, str)]
    assert not unquoted, f"{name}: YAML reads 0x30 as a number, write 0+0x30"
    series = [{"series": _series(key), "values": values} for key, values in case["series"].items()]
    expected = [_expected(rules, fired) for fired in case.get("fires", ())]
    evaluated = {"eval_time": case["at"], "alertname": alert, "exp_alerts": expected}
    return {"name": name, "interval": "1m", "input_series": series, "alert_rule_test": [evaluated]}


def _series(key: str) -> str:
    """``family{own labels}`` with the labels of its sidecar and engine added. The family has to exist."""
    name, _, labels = key.rstrip("}").partition("{")
    if name == "up":
        return key
    own = {pair.split("=")[0] for pair in labels.split(",") if pair}
    family = _family(name)
    assert own <= {*family.labels, "le", "purpose"}, f"{key}: {family.name} has the labels {family.labels}"
    identity = ENGINE if has_engine(family) else TARGET
    pairs = [*filter(None, [labels]), *(f'{label}="{value}"' for label, value in identity.items())]
    return f"{name}{{{','.join(pairs)}}}"


def _family(sample: str) -> Family:
    for suffix in ("", "_total", "_info", "_bucket", "_sum", "_count"):
        if sample.endswith(suffix) and (family := FAMILIES.get(sample.removesuffix(suffix))):
            return family
    raise AssertionError(f"no metric family has the sample {sample}")


def _expected(rules: list[dict[str, Any]], fired: dict[str, str]) -> dict[str, Any]:
    """What the alert must carry: the case says the summary and the labels of its own, the rule the rest."""
    labels = {key: value for key, value in fired.items() if key != "summary"}
    alerts = [rule for rule in rules if "alert" in rule]
    rule = next(rule for rule in alerts if labels.get("statistic") == rule["labels"].get("statistic"))
    identity = ENGINE if "$labels.engine" in rule["annotations"]["summary"] else TARGET
    expected = {**identity, **rule["labels"], **labels}
    board = rule["annotations"]["dashboard_url"]
    for label, value in ENGINE.items():
        board = board.replace(f"{{{{ $labels.{label} | urlquery }}}}", value.replace(":", "%3A"))
    return {
        "exp_labels": {label: value for label, value in expected.items() if value is not None},
        "exp_annotations": {**rule["annotations"], "summary": fired["summary"], "dashboard_url": board},
    }


@pytest.mark.stack
@pytest.mark.timeout(600)
@pytest.mark.parametrize("alert", sorted(ALERTS))
def test_cases_notice_each_clause(alert: str, tmp_path: Path) -> None:
    """Drop a clause, the threshold or the wait of the alert: some case must fail."""
    rules = _rules_by_alert(config.load(SHORT))[alert]
    survivors = [what for what, mutant in _mutants(rules) if not _promtool({alert: mutant}, tmp_path)]
    assert survivors == []


def _mutants(rules: list[dict[str, Any]]) -> Iterator[tuple[str, list[dict[str, Any]]]]:
    for index, rule in enumerate(rules):
        if "alert" not in rule or "absent" in rule["expr"]:
            continue
        lines = rule["expr"].split("\n")
        changed = [
            (f"without {line}", {**rule, "expr": "\n".join([*lines[:number], *lines[number + 1 :]])})
            for number, line in enumerate(lines)
            if line.startswith(("and ", "unless "))
        ]
        first = re.sub(r"(>=|<=|==|>|<) [0-9.]+$", "> -1e18", lines[0])
        if first != lines[0]:
            changed.append((f"whatever the value of {lines[0]}", {**rule, "expr": "\n".join([first, *lines[1:]])}))
        if "for" in rule:
            changed.append(("at once", {key: value for key, value in rule.items() if key != "for"}))
        for what, mutant in changed:
            yield what, [*rules[:index], mutant, *rules[index + 1 :]]


def test_recorded_series_have_names_of_their_own() -> None:
    records = [rule.record for rules in recording_groups(config.load()).values() for rule in rules]
    assert len(records) == len(set(records))
