"""What every query must be, whether a board or a rule asks it."""

from __future__ import annotations

from collections.abc import Collection, Iterator

import promql_parser as promql

from hicache_dashboards.lint.expression import IDENTITY, Use, legend_labels, uses, walk
from hicache_dashboards.promql import has_engine, own_labels
from hicache_exporter.names import FAMILIES

Problem = tuple[str, str]
"""Name of the rule, and what is wrong."""

FOREIGN = {"up": set(), "ALERTS": {"alertname", "alertstate", "severity", "area", "engine"}}
"""Metrics that Prometheus itself makes, and their labels beside those of the target."""
TARGET_LABELS = {"job", "instance", "purpose"}
OF_COUNTERS = {"rate", "irate", "increase", "resets", "last_over_time"}
RANKS_ADD_UP = {"hicache_seam_state", "hicache_rank_memory_bytes", "hicache_rank_l2_configured_bytes"}
"""Gauges kept for each rank whose sum over ranks means something. Counters kept for each rank always add up."""


def check(tree: promql.Expr, recorded: Collection[str]) -> Iterator[Problem]:
    for use in uses(tree):
        yield from _known(use, recorded)
        yield from _counter(use)
        yield from _ranks(use)
    yield from _no_default_zero(tree)


def _known(use: Use, recorded: Collection[str]) -> Iterator[Problem]:
    if use.metric in recorded:
        return
    if use.metric in FOREIGN:
        labels = FOREIGN[use.metric]
    elif use.family:
        part = "bucket" if use.metric.endswith("_bucket") else ""
        labels = {*own_labels(use.family, part), *({"engine"} if has_engine(use.family) else ())}
    else:
        near = [name for name in FAMILIES if name.split("_")[1:2] == use.metric.split("_")[1:2]]
        yield "unknown-metric", f"{use.metric} is no sample of any family ({', '.join(near[:5])}...)"
        return
    if strange := set(use.matched) - labels - TARGET_LABELS:
        yield "unknown-label", f"{use.metric} has no label {', '.join(sorted(strange))}"


def _counter(use: Use) -> Iterator[Problem]:
    cumulative = use.family is not None and use.family.type in ("counter", "histogram")
    compared = any(isinstance(n, promql.BinaryExpr) and str(n.op) in (">", "unless") for n in use.above[:3])
    if cumulative and not OF_COUNTERS & set(use.functions) and not compared:
        yield "counter-aggregation", f"{use.metric} only grows: take its rate or increase"


def _ranks(use: Use) -> Iterator[Problem]:
    """Ranks may be told apart, counted, or reduced; they may be added up only where that means something."""
    family = use.family
    if family is None or "rank" not in family.labels or family.type == "counter":
        return
    for aggregation in use.aggregations:
        keeps = _keeps(aggregation, "rank")
        if not keeps and str(aggregation.op) in ("sum", "avg") and family.name not in RANKS_ADD_UP:
            yield "ranks", f"{aggregation.op} over the ranks of {use.metric}: take max or min, or keep the rank"
        if not keeps:
            return


def _keeps(aggregation: promql.AggregateExpr, label: str) -> bool:
    if aggregation.modifier is None:
        return False
    named = label in aggregation.modifier.labels
    return named if aggregation.modifier.type == promql.AggModifierType.By else not named


def _no_default_zero(tree: promql.Expr) -> Iterator[Problem]:
    for node, _ in walk(tree):
        if isinstance(node, promql.Call) and node.func.name == "vector":
            yield "default-zero", "vector() makes a number out of missing data"


def unguarded_division(tree: promql.Expr) -> bool:
    """True if something is divided by what may be 0, so that the result may be NaN."""
    return any(
        isinstance(node, promql.BinaryExpr) and str(node.op) == "/" and not _positive(node.rhs)
        for node, _ in walk(tree)
    )


def _positive(node: promql.Expr) -> bool:
    while isinstance(node, promql.ParenExpr):
        node = node.expr
    if isinstance(node, promql.NumberLiteral):
        return node.val > 0
    return isinstance(node, promql.BinaryExpr) and str(node.op) == ">" and not _is_bool(node)


def _is_bool(node: promql.BinaryExpr) -> bool:
    return node.modifier is not None and node.modifier.return_bool


def legend_is_answerable(tree: promql.Expr, legend: str) -> set[str]:
    """Labels that the legend asks for and the result can't have: the outermost aggregation has dropped them."""
    asked = legend_labels(legend)
    kept: set[str] | None = None
    node = tree
    while True:
        if isinstance(node, promql.ParenExpr):
            node = node.expr
        elif isinstance(node, promql.BinaryExpr):
            node = node.lhs
        elif isinstance(node, promql.Call):
            node = node.args[-1]
        else:
            break
    if isinstance(node, promql.AggregateExpr):
        by = node.modifier is not None and node.modifier.type == promql.AggModifierType.By
        kept = set(node.modifier.labels) if by and node.modifier else set()
    elif isinstance(node, promql.VectorSelector) and (use := Use(node, (), "")).family:
        kept = {*use.family.labels, *IDENTITY} if use.family else set()
    return asked - kept if kept is not None else set()
