"""What a panel and its targets must be."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from string import ascii_uppercase
from typing import Any

import promql_parser as promql
from grafana_foundation_sdk.models import units

from hicache_dashboards.lint import query_rules
from hicache_dashboards.lint.exceptions import FIXED_WINDOWS
from hicache_dashboards.lint.expression import parse, uses
from hicache_dashboards.lint.query_rules import Problem
from hicache_dashboards.promql import has_engine

Json = dict[str, Any]
UNITS = {value for name, value in vars(units).items() if isinstance(value, str) and not name.startswith("_")}
OWN_UNIT = re.compile(r"^(si|suffix|prefix|count|currency):\S+")
SINGLE = ("stat", "bargauge", "gauge", "table")
"""Panels that show the last value only."""


def check(board: str, panel: Json, recorded: Collection[str]) -> Iterator[Problem]:
    if panel["type"] == "row":
        return
    if not panel.get("title") or len(panel.get("description", "")) < 4:
        yield "panel-title-description", "needs a title and a description"
    defaults = panel["fieldConfig"]["defaults"]
    if defaults.get("unit") not in UNITS and not OWN_UNIT.match(defaults.get("unit", "")):
        yield "panel-units", f"{defaults.get('unit')!r} is no unit that Grafana knows"
    if not defaults.get("noValue", "").startswith("no data"):
        yield "no-value", "an empty panel must say that it has no data, and never show a number"
    if panel["type"] in SINGLE and not any(m["type"] == "special" for m in defaults.get("mappings", ())):
        yield "no-traffic", "NaN must be mapped to words"
    if panel.get("datasource", {}).get("uid") != "${datasource}":
        yield "panel-datasource", "must use the variable datasource"
    targets = panel.get("targets", [])
    if not targets:
        yield "panel-no-targets", "has no query"
    if [target.get("refId") for target in targets] != list(ascii_uppercase[: len(targets)]):
        yield "ref-ids", "targets must be A, B, C in order"
    for target in targets:
        yield from _target(board, panel, target, recorded)


def _target(board: str, panel: Json, target: Json, recorded: Collection[str]) -> Iterator[Problem]:
    if target["datasource"] != {"type": "prometheus", "uid": "${datasource}"}:
        yield "target-datasource", "must ask the chosen Prometheus; there are no log queries here"
    if bool(target.get("instant")) == bool(target.get("range")):
        yield "instant-or-range", "must be either instant or range"
    if not target.get("legendFormat"):
        yield "legend", f"target {target['refId']} has no legend"
    try:
        tree = parse(target["expr"])
    except ValueError as error:
        yield "target-promql", f"{error}: {target['expr']}"
        return
    yield from query_rules.check(tree, recorded)
    yield from _selected(tree)
    yield from _windows(board, panel, target)
    if query_rules.unguarded_division(tree) and panel["type"] not in SINGLE:
        yield "zero-division", "0/0 would be drawn: guard the denominator with > 0"
    if lost := query_rules.legend_is_answerable(tree, target["legendFormat"]):
        yield "legend", f"{target['legendFormat']} asks for {', '.join(sorted(lost))}, which the query drops"
    heatmap = panel["type"] == "heatmap"
    if heatmap != (target.get("format") == "heatmap") or (heatmap and "le" not in target["legendFormat"]):
        yield "heatmap", "a heatmap wants buckets, and buckets want a heatmap"


def _selected(tree: promql.Expr) -> Iterator[Problem]:
    for use in uses(tree):
        for label in ("job", "instance"):
            if use.matched.get(label) != f"${label}":
                yield f"target-{label}", f"{use.metric} is not narrowed by ${label}"
        if use.family and has_engine(use.family) and use.matched.get("engine") != "$engine":
            yield "target-engine", f"{use.metric} is not narrowed by $engine"


def _windows(board: str, panel: Json, target: Json) -> Iterator[Problem]:
    written = set(re.findall(r"\[([^\]]+)\]", target["expr"]))
    allowed = {"$__rate_interval", *(("$__range",) if target.get("instant") else ())}
    if written - allowed and (board, panel["title"]) not in FIXED_WINDOWS:
        yield "target-rate-interval", f"uses {', '.join(sorted(written - allowed))} and not $__rate_interval"
