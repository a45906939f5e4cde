"""What a board must be: the rules of grafana/dashboard-linter that are about the board, and some of our own."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations
from typing import Any

from hicache_dashboards.lint.expression import parse
from hicache_dashboards.lint.query_rules import Problem

Json = dict[str, Any]
COLUMNS = 24
RELOAD_ON_TIME_CHANGE = 2
VARIABLES = ("datasource", "traces", "job", "instance", "model", "engine", "rank")


def check(board: Json) -> Iterator[Problem]:
    variables = {variable["name"]: variable for variable in board["templating"]["list"]}
    if tuple(variables) != VARIABLES:
        yield "variables", f"are {', '.join(variables)} and not {', '.join(VARIABLES)}"
        return
    yield from _templates(variables)
    if board.get("editable", True):
        yield "uneditable-dashboard", "can be edited in Grafana, where the next deployment would undo it"
    if not board["uid"].startswith("hicache-") or not board.get("description"):
        yield "identity", "needs a uid that starts with hicache- and a description"
    yield from _links(board)
    yield from _grid(board["panels"])


def _templates(variables: Json) -> Iterator[Problem]:
    if variables["datasource"]["query"] != "prometheus" or variables["datasource"]["label"] != "Data source":
        yield "template-datasource", "the variable datasource must choose a Prometheus and be labelled Data source"
    for name in ("job", "instance"):
        variable = variables[name]
        wanted = {"label": name.capitalize(), "multi": True, "includeAll": True, "allValue": ".+"}
        wrong = [key for key, value in wanted.items() if variable.get(key) != value]
        if wrong or variable["datasource"]["uid"] != "${datasource}":
            yield f"template-{name}", f"the variable {name} differs in {', '.join(wrong) or 'its data source'}"
    for name, variable in variables.items():
        if variable["type"] != "query":
            continue
        if variable["refresh"] != RELOAD_ON_TIME_CHANGE:
            yield "template-on-time-change-reload", f"{name} must reload when the time range changes"
        try:
            parse(_inner(variable["query"]))
        except ValueError as error:
            yield "template-label-promql", f"{name}: {error}"


def _inner(query: str) -> str:
    """The PromQL inside label_values(promql, label) or query_result(promql)."""
    function, _, rest = query.partition("(")
    body = rest.removesuffix(")")
    return body.rpartition(",")[0] if function == "label_values" else body


def _links(board: Json) -> Iterator[Problem]:
    titles = {link["title"] for link in board["links"]}
    if not {"Boards", "Runbooks", "Traces"} <= titles:
        yield "links", f"must lead to the boards, the runbooks and the traces, has {sorted(titles)}"


def _grid(panels: list[Json]) -> Iterator[Problem]:
    ids = [panel["id"] for panel in panels]
    if len(set(ids)) != len(ids):
        yield "panel-ids", "two panels have the same id"
    for one, other in combinations(panels, 2):
        if _overlap(one["gridPos"], other["gridPos"]):
            yield "overlap", f"{one['title']!r} lies over {other['title']!r}"
    lines: dict[int, int] = {}
    for panel in panels:
        lines[panel["gridPos"]["y"]] = lines.get(panel["gridPos"]["y"], 0) + panel["gridPos"]["w"]
    for y, width in lines.items():
        if width != COLUMNS:
            yield "spans", f"the line at y={y} is {width} columns wide and not {COLUMNS}"


def _overlap(one: Json, other: Json) -> bool:
    beside = one["x"] + one["w"] <= other["x"] or other["x"] + other["w"] <= one["x"]
    above = one["y"] + one["h"] <= other["y"] or other["y"] + other["h"] <= one["y"]
    return not beside and not above
