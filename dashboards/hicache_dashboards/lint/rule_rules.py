"""What an alert must be, after the checks of pint and promruval that need no server."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import promql_parser as promql

from hicache_dashboards.lint.expression import parse, walk
from hicache_dashboards.lint.query_rules import Problem, unguarded_division

COMPARISONS = {">", "<", ">=", "<=", "==", "!="}
SEVERITIES = {"critical", "warning", "info"}


def check(rule: dict[str, Any], runbooks: set[str]) -> Iterator[Problem]:
    tree = parse(rule["expr"])
    if unguarded_division(tree):
        yield "zero-division", "0/0 is NaN: guard the denominator with > 0"
    if "$" in rule["expr"]:
        yield "variable", "a rule has no board variables"
    if re.search(r"\birate\(", rule["expr"]):
        yield "irate", "irate looks at two samples only"
    if "alert" in rule:
        yield from _alert(rule, tree, runbooks)
    elif not re.fullmatch(r"hicache:\w+:\w+", rule["record"]):
        yield "record-name", "must be hicache:what:over_what"


def _alert(rule: dict[str, Any], tree: promql.Expr, runbooks: set[str]) -> Iterator[Problem]:
    if not _compares(tree):
        yield "comparison", "fires always: compares with nothing"
    if "absent" in rule["expr"] and "for" not in rule:
        yield "absent", "absent() needs a wait, or it fires on every start"
    if rule["labels"].get("severity") not in SEVERITIES:
        yield "severity", f"must be one of {', '.join(sorted(SEVERITIES))}"
    annotations = rule["annotations"]
    if missing := {"summary", "action", "runbook_url", "dashboard_url"} - annotations.keys():
        yield "annotations", f"lacks {', '.join(sorted(missing))}"
    if rule["alert"] not in runbooks or rule["alert"] not in annotations["runbook_url"]:
        yield "runbook", "has no runbook page of its name"
    if not re.search(r"\{\{.*\}\}|for \d", annotations["summary"]) and "absent" not in rule["expr"]:
        yield "summary", "must carry the numbers"


def _compares(tree: promql.Expr) -> bool:
    return any(
        (isinstance(node, promql.BinaryExpr) and str(node.op) in COMPARISONS)
        or (isinstance(node, promql.Call) and node.func.name == "absent")
        for node, _ in walk(tree)
    )
