"""The generated boards and rules break no rule of the linter, and every rule can be broken."""

from __future__ import annotations

import re
from collections.abc import Callable
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest

from hicache_dashboards import config, rulefile
from hicache_dashboards.boards.catalogue import boards
from hicache_dashboards.boards.render import as_dict
from hicache_dashboards.lint import check

Json = dict[str, Any]
SETTINGS = config.load()
BOARDS = [as_dict(board, SETTINGS) for board in boards(SETTINGS)]
GROUPS = rulefile.both(SETTINGS)["groups"]
RULES = [rule for group in GROUPS for rule in group["rules"]]
RECORDED = {rule["record"] for rule in RULES if "record" in rule}
ALERTS = {rule["alert"] for rule in RULES if "alert" in rule}
RUNBOOK_PAGES = Path(__file__).parents[2] / "dashboards" / "runbooks"
RUNBOOKS = {page.stem for page in RUNBOOK_PAGES.glob("*.md")}


def test_boards_are_clean() -> None:
    assert [str(finding) for finding in check.boards(BOARDS, RECORDED)] == []


def test_rules_are_clean() -> None:
    assert [str(finding) for finding in check.rules(GROUPS, RUNBOOKS)] == []


def test_every_family_is_looked_at() -> None:
    assert [str(finding) for finding in check.unshown(BOARDS, GROUPS)] == []


def test_every_runbook_belongs_to_an_alert() -> None:
    assert RUNBOOKS - {"README"} == ALERTS


def panel(board: Json) -> Json:
    return next(panel for panel in board["panels"] if panel["title"] == "Mean TTFT by serving tier")


def target(board: Json) -> Json:
    found: Json = panel(board)["targets"][0]
    return found


def variable(board: Json, name: str) -> Json:
    return next(variable for variable in board["templating"]["list"] if variable["name"] == name)


def asks(expr: str, **changes: Any) -> Callable[[Json], None]:
    return lambda board: target(board).update(expr=expr, **changes)


SELECTED = 'job=~"$job",instance=~"$instance",engine=~"$engine"'
BREAKS: list[tuple[str, Callable[[Json], None]]] = [
    ("template-datasource", lambda b: variable(b, "datasource").update(query="loki")),
    ("template-job", lambda b: variable(b, "job").update(multi=False)),
    ("template-instance", lambda b: variable(b, "instance").update(allValue="")),
    ("template-label-promql", lambda b: variable(b, "model").update(query="label_values(up{, model)")),
    ("template-on-time-change-reload", lambda b: variable(b, "engine").update(refresh=1)),
    ("variables", lambda b: b["templating"]["list"].pop()),
    ("uneditable-dashboard", lambda b: b.update(editable=True)),
    ("identity", lambda b: b.update(description="")),
    ("links", lambda b: b["links"].pop()),
    ("panel-ids", lambda b: panel(b).update(id=1)),
    ("overlap", lambda b: panel(b)["gridPos"].update(x=4)),
    ("spans", lambda b: panel(b)["gridPos"].update(w=11)),
    ("panel-title-description", lambda b: panel(b).update(description="")),
    ("panel-units", lambda b: panel(b)["fieldConfig"]["defaults"].update(unit="fortnights")),
    ("no-value", lambda b: panel(b)["fieldConfig"]["defaults"].update(noValue="0")),
    ("no-traffic", lambda b: b["panels"][1]["fieldConfig"]["defaults"].update(mappings=[])),
    ("panel-datasource", lambda b: panel(b)["datasource"].update(uid="prometheus")),
    ("target-datasource", lambda b: target(b)["datasource"].update(type="loki")),
    ("panel-no-targets", lambda b: panel(b).update(targets=[])),
    ("ref-ids", lambda b: target(b).update(refId="X")),
    ("instant-or-range", lambda b: target(b).update(instant=True)),
    ("legend", lambda b: target(b).update(legendFormat="")),
    ("legend", lambda b: target(b).update(legendFormat="{{rank}}")),
    ("target-promql", asks("sum(rate(")),
    ("target-rate-interval", asks(f"sum by (tier) (rate(hicache_requests_total{{{SELECTED}}}[5m]))")),
    ("target-job", asks('sum by (tier) (rate(hicache_requests_total{instance=~"$instance"}[$__rate_interval]))')),
    ("target-instance", asks('sum by (tier) (rate(hicache_requests_total{job=~"$job"}[$__rate_interval]))')),
    ("target-engine", asks('sum by (tier) (rate(hicache_requests_total{job=~"$job"}[$__rate_interval]))')),
    ("counter-aggregation", asks(f"sum by (tier) (hicache_requests_total{{{SELECTED}}})")),
    ("unknown-metric", asks(f"sum by (tier) (rate(hicache_hicache_hits_total{{{SELECTED}}}[$__rate_interval]))")),
    ("unknown-label", asks(f'sum by (tier) (rate(hicache_requests_total{{{SELECTED},pool="kv"}}[$__rate_interval]))')),
    ("ranks", asks(f"sum(hicache_recorder_fill_ratio{{{SELECTED}}})", legendFormat="all")),
    ("ranks", asks(f"avg by (engine) (hicache_recorder_up{{{SELECTED}}})", legendFormat="{{engine}}")),
    ("default-zero", asks(f"sum(hicache_engine_up{{{SELECTED}}}) or vector(0)", legendFormat="up")),
    ("zero-division", asks(f"hicache_engine_used_tokens{{{SELECTED}}} / hicache_engine_capacity_tokens{{{SELECTED}}}")),
    ("heatmap", lambda b: target(b).update(format="heatmap")),
]


@pytest.mark.parametrize(("rule", "break_it"), BREAKS, ids=[f"{rule}-{i}" for i, (rule, _) in enumerate(BREAKS)])
def test_a_broken_board_is_found(rule: str, break_it: Callable[[Json], None]) -> None:
    board = deepcopy(BOARDS[0])
    break_it(board)
    assert rule in {finding.rule for finding in check.boards([board, *BOARDS[1:]], RECORDED)}


def alert(**changes: Any) -> Json:
    sound = next(rule for rule in RULES if rule.get("alert") == "HiCacheEngineDown")
    return {**deepcopy(sound), **changes}


RULE_BREAKS: list[tuple[str, Json]] = [
    ("comparison", alert(expr="hicache_engine_up")),
    ("absent", alert(expr="absent(hicache_engine_up)", **{"for": None})),
    ("severity", alert(labels={"severity": "page"})),
    ("annotations", alert(annotations={"summary": "{{ $value }}", "runbook_url": "HiCacheEngineDown"})),
    ("summary", alert(annotations={**alert()["annotations"], "summary": "Something is wrong."})),
    ("runbook", alert(alert="HiCacheNew")),
    ("variable", alert(expr='hicache_engine_up{engine="$engine"} == 0')),
    ("irate", alert(expr="irate(hicache_requests_total[5m]) > 0")),
    ("zero-division", alert(expr="hicache_engine_used_tokens / hicache_engine_capacity_tokens > 0.9")),
    ("ranks", alert(expr="sum without (rank) (hicache_recorder_up) == 0")),
    ("unknown-metric", alert(expr="hicache:hit_ratio:lately < 0.5")),
    ("record-name", {"record": "hit_ratio", "expr": "hicache_engine_up"}),
]


@pytest.mark.parametrize(("rule", "broken"), RULE_BREAKS, ids=[rule for rule, _ in RULE_BREAKS])
def test_a_broken_rule_is_found(rule: str, broken: Json) -> None:
    sound = {key: value for key, value in broken.items() if value is not None}
    found = check.rules([*GROUPS, {"rules": [sound]}], RUNBOOKS)
    assert rule in {finding.rule for finding in found}


def test_a_family_that_nobody_looks_at_is_found() -> None:
    assert "hicache_engine_up" in {finding.where for finding in check.unshown([], [])}


def test_an_exception_for_a_panel_that_is_gone_is_found() -> None:
    assert "exceptions" in {finding.rule for finding in check.boards(BOARDS[1:], RECORDED)}


@pytest.mark.parametrize("alert_name", sorted(ALERTS))
def test_a_runbook_says_what_it_means_whom_it_hurts_how_to_find_out_and_what_to_do(alert_name: str) -> None:
    page = (RUNBOOK_PAGES / f"{alert_name}.md").read_text()
    sections = re.findall(r"^#+ (.*)$", page, flags=re.M)
    assert sections == [alert_name, "Meaning", "Impact", "Diagnosis", "Mitigation"]
    assert all(len(body.split()) >= 3 for body in re.split(r"^## .*$", page, flags=re.M)[1:])


def test_links_between_runbooks_lead_somewhere() -> None:
    links = {link for page in RUNBOOK_PAGES.glob("*.md") for link in re.findall(r"\]\((\w+)\.md\)", page.read_text())}
    assert links <= RUNBOOKS


def test_the_index_lists_every_alert_with_its_severity() -> None:
    index = (RUNBOOK_PAGES / "README.md").read_text()
    severities = {rule["alert"]: rule["labels"]["severity"] for rule in RULES if "alert" in rule}
    assert dict(re.findall(r"\]\((\w+)\.md\) \((\w+)\)", index)) == severities
