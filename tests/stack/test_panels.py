"""Every query of every panel, asked of a real Prometheus that has watched the real engine for a while."""

from __future__ import annotations

import pytest

from hicache_dashboards import config
from hicache_dashboards.boards.catalogue import boards
from hicache_dashboards.boards.model import Panel
from hicache_dashboards.boards.variables import QUERIES
from hicache_dashboards.queries.model import Query

from .conftest import Stack
from .waiting import wait_until

pytestmark = [pytest.mark.stack, pytest.mark.engine, pytest.mark.timeout(900)]

VARIABLES = {
    "$__rate_interval": "15s",
    "$__range": "60s",
    "$job": ".+",
    "$instance": ".+",
    "$model": ".*",
    "$engine": ".+",
    "$rank": ".*",
}
ASKED = [
    pytest.param(panel, query, id=f"{board.uid} / {panel.title} / {query.legend}")
    for board in boards(config.load())
    for panel in board.panels
    for query in panel.queries
]


def filled_in(expr: str) -> str:
    for name, value in VARIABLES.items():
        expr = expr.replace(name, value)
    return expr


@pytest.fixture(scope="module")
def watched(stack: Stack) -> Stack:
    """Hits of every tier, load-backs, evictions and a flush have been seen."""
    stack.traffic.repeating = True
    seen = "sum(increase(hicache_hit_tokens_total{tier='host'}[60s])) > 0"
    wait_until(lambda: stack.prometheus.query(seen), "L2 is read", 150)
    wait_until(lambda: stack.prometheus.query("count_over_time(up[60s]) > 20"), "the windows are full", 60)
    return stack


@pytest.mark.parametrize(("panel", "query"), ASKED)
def test_a_query_has_data_or_says_why_not(panel: Panel, query: Query, watched: Stack) -> None:
    result = watched.prometheus.query(filled_in(query.expr))
    assert result or query.optional, f"{panel.title}: {filled_in(query.expr)}"


@pytest.mark.parametrize("variable", QUERIES)
def test_a_variable_finds_values(variable: str, watched: Stack) -> None:
    function, _, rest = filled_in(QUERIES[variable]).partition("(")
    expr, _, label = rest.removesuffix(")").rpartition(", ")
    result = watched.prometheus.query(expr if function == "label_values" else rest.removesuffix(")"))
    wanted = label if function == "label_values" else "engine"
    assert all(series["metric"].get(wanted) for series in result)
    assert result


def test_what_the_plugin_promises_is_there(watched: Stack) -> None:
    """``optional`` is no excuse for what the plugin gives: this engine has it."""
    excused = (
        "GPU",
        "storage backend",
        "history",
        "swa or mamba",
        "empty",
        "full L2",
        "targets",
        "cgroup",
        "the right to",
    )
    lacking = {
        f"{param.values[0].title}: {param.values[1].legend} ({param.values[1].optional})"  # type: ignore[union-attr]
        for param in ASKED
        if not watched.prometheus.query(filled_in(param.values[1].expr))  # type: ignore[union-attr]
        and not any(word in param.values[1].optional for word in excused)  # type: ignore[union-attr]
    }
    assert lacking == set()
