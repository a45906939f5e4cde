"""PromQL as a tree, with Grafana's variables filled in."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

import promql_parser as promql

from hicache_exporter.names import FAMILIES, Family

DURATIONS = {"__rate_interval": "1m", "__range": "3h", "__interval": "15s"}
Above = tuple[promql.Expr, ...]
IDENTITY = {"job", "instance", "engine"}


@dataclass(frozen=True, slots=True)
class Use:
    """One selector of an expression, and the nodes above it, from the nearest up."""

    selector: promql.VectorSelector
    above: Above
    window: str
    """Length of its range in seconds; empty for an instant selector."""

    @property
    def metric(self) -> str:
        return self.selector.name or ""

    @property
    def matched(self) -> dict[str, str]:
        return {matcher.name: matcher.value for matcher in self.selector.matchers.matchers}

    @property
    def family(self) -> Family | None:
        return family_of(self.metric)

    @property
    def functions(self) -> list[str]:
        return [node.func.name for node in self.above if isinstance(node, promql.Call)]

    @property
    def aggregations(self) -> list[promql.AggregateExpr]:
        return [node for node in self.above if isinstance(node, promql.AggregateExpr)]


def parse(expr: str) -> promql.Expr:
    """Raises ValueError on invalid PromQL."""
    filled = expr
    for name, duration in DURATIONS.items():
        filled = filled.replace(f"${name}", duration)
    return promql.parse(filled)


def uses(tree: promql.Expr) -> list[Use]:
    return [_use(node, above) for node, above in walk(tree) if isinstance(node, promql.VectorSelector)]


def walk(
    node: promql.Expr, above: tuple[promql.Expr, ...] = ()
) -> Iterator[tuple[promql.Expr, tuple[promql.Expr, ...]]]:
    yield node, above
    for child in _children(node):
        yield from walk(child, (node, *above))


def _children(node: promql.Expr) -> list[promql.Expr]:
    if isinstance(node, promql.BinaryExpr):
        return [node.lhs, node.rhs]
    if isinstance(node, promql.Call):
        return list(node.args)
    if isinstance(node, promql.MatrixSelector):
        return [node.vector_selector]
    if isinstance(node, promql.AggregateExpr | promql.ParenExpr | promql.UnaryExpr | promql.SubqueryExpr):
        return [node.expr]
    return []


def _use(node: promql.VectorSelector, above: Above) -> Use:
    holder = above[0] if above else None
    window = str(holder.range.total_seconds()) if isinstance(holder, promql.MatrixSelector) else ""
    return Use(node, above, window)


def family_of(metric: str) -> Family | None:
    """The family that has samples of this name, if there is one."""
    for suffix, types in (
        ("_bucket", {"histogram"}),
        ("_sum", {"histogram"}),
        ("_count", {"histogram"}),
        ("_total", {"counter"}),
        ("_info", {"info"}),
        ("", {"gauge"}),
    ):
        family = FAMILIES.get(metric.removesuffix(suffix)) if metric.endswith(suffix) else None
        if family and family.type in types:
            return family
    return None


def legend_labels(legend: str) -> set[str]:
    return set(re.findall(r"\{\{\s*(\w+)\s*\}\}", legend))
