"""All rules over all boards and rule files."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from hicache_dashboards.lint import board_rules, panel_rules, query_rules, rule_rules
from hicache_dashboards.lint.exceptions import FIXED_WINDOWS, UNSHOWN_FAMILIES
from hicache_dashboards.lint.expression import parse, uses
from hicache_dashboards.lint.finding import Finding
from hicache_exporter.names import FAMILIES

Json = dict[str, Any]


def boards(dashboards: list[Json], recorded: set[str]) -> Iterator[Finding]:
    for board in dashboards:
        for rule, message in board_rules.check(board):
            yield Finding(board["uid"], rule, message)
        for panel in board["panels"]:
            for rule, message in panel_rules.check(board["uid"], panel, recorded):
                yield Finding(f"{board['uid']} / {panel['title']}", rule, message)
    titles = {(board["uid"], panel["title"]) for board in dashboards for panel in board["panels"]}
    for uid, title in FIXED_WINDOWS.keys() - titles:
        yield Finding(uid, "exceptions", f"there is no panel {title!r} to except")


def rules(groups: list[Json], runbooks: set[str]) -> Iterator[Finding]:
    flat = [rule for group in groups for rule in group["rules"]]
    recorded = {rule["record"] for rule in flat if "record" in rule}
    for rule in flat:
        where = rule.get("record") or rule["alert"]
        for name, message in query_rules.check(parse(rule["expr"]), recorded):
            yield Finding(where, name, message)
        for name, message in rule_rules.check(rule, runbooks):
            yield Finding(where, name, message)


def unshown(dashboards: list[Json], groups: list[Json]) -> Iterator[Finding]:
    """Families that the sidecar serves and nobody looks at."""
    asked = [t["expr"] for board in dashboards for panel in board["panels"] for t in panel.get("targets", ())]
    asked += [rule["expr"] for group in groups for rule in group["rules"]]
    seen = {use.family.name for expr in asked for use in uses(parse(expr)) if use.family}
    for name in FAMILIES.keys() - seen - UNSHOWN_FAMILIES.keys():
        yield Finding(name, "unshown-family", "no board and no rule looks at it")
    for name in UNSHOWN_FAMILIES.keys() & seen:
        yield Finding(name, "exceptions", "is shown now")
