"""Boards as Grafana dashboards (v1 JSON, read by Grafana 10 to 13)."""

from __future__ import annotations

import json
from string import ascii_uppercase
from typing import Any

from hicache_dashboards.boards import kinds, links
from hicache_dashboards.boards.model import Board, Panel
from hicache_dashboards.boards.variables import PROMETHEUS, variables
from hicache_dashboards.config import Settings
from hicache_dashboards.grafana import JSONEncoder, dashboard, models, prometheus, prometheus_models
from hicache_dashboards.promql import sample
from hicache_dashboards.queries.model import Query
from hicache_dashboards.queries.vocabulary import selection
from hicache_exporter import names

ROW_IDS = 1000
"""Rows count from here, so that a new row does not renumber the panels, whose ids are part of their links."""


def to_json(board: Board, settings: Settings) -> str:
    """Stable text: the same board gives the same bytes."""
    return JSONEncoder(sort_keys=True, indent=2).encode(_dashboard(board, settings).build()) + "\n"


def as_dict(board: Board, settings: Settings) -> dict[str, Any]:
    parsed: dict[str, Any] = json.loads(to_json(board, settings))
    return parsed


def _dashboard(board: Board, settings: Settings) -> dashboard.Dashboard:
    rendered = (
        dashboard.Dashboard(board.title)
        .uid(board.uid)
        .description(board.description)
        .tags(["hicache"])
        .readonly()
        .time("now-3h", "now")
        .refresh("30s")
        .timezone("browser")
        .tooltip(models.DashboardCursorSync.CROSSHAIR)
        .variables([*variables()])
        .links([*links.board_links(settings)])
        .annotations([_restarts()])
    )
    number = 0
    for index, row in enumerate(board.rows):
        rendered.with_row(dashboard.Row(row.title).id(ROW_IDS + index))
        for panel in row.panels:
            number += 1
            rendered.with_panel(_panel(panel, number, settings))
    return rendered


def _panel(panel: Panel, number: int, settings: Settings) -> kinds.Builder:
    return (
        kinds.builder(panel)
        .id(number)
        .title(panel.title)
        .description(_description(panel))
        .datasource(PROMETHEUS)
        .interval(settings.scrape.interval)
        .span(panel.span)
        .height(panel.height)
        .unit(panel.unit)
        .no_value(_no_value(panel))
        .links(links.panel_links(panel, settings))
        .targets([_target(panel, query, ascii_uppercase[i]) for i, query in enumerate(panel.queries)])
    )


def _target(panel: Panel, query: Query, ref: str) -> prometheus.Dataquery:
    formats = prometheus_models.PromQueryFormat
    format_ = formats.HEATMAP if query.buckets else formats.TABLE if panel.kind == "table" else formats.TIME_SERIES
    target = (
        prometheus.Dataquery()
        .datasource(PROMETHEUS)
        .ref_id(ref)
        .expr(query.expr)
        .legend_format(query.legend)
        .format(format_)
        .editor_mode(prometheus_models.QueryEditorMode.CODE)
        .exemplar(query.exemplars)
    )
    return target.instant() if query.instant else target.range()


def _description(panel: Panel) -> str:
    """The panel's own words, then what each colour and state means, then when it is rightly empty."""
    lines = [panel.description]
    lines += [f"- {_from(step.at)}: {step.meaning}" for step in panel.steps]
    lines += [f"- {state.text} = {state.value}" for state in panel.states]
    reasons = dict.fromkeys(query.optional for query in panel.queries if query.optional)
    lines += [f"\n_{reason[0].upper()}{reason[1:]}._" for reason in reasons]
    return "\n".join(lines)


def _from(value: float) -> str:
    return "below" if value == float("-inf") else f"from {value:g}"


def _no_value(panel: Panel) -> str:
    """Never a number: an empty panel says so, and why it may be rightly empty."""
    reasons = {query.optional for query in panel.queries}
    return f"no data: {reasons.pop()}" if len(reasons) == 1 and "" not in reasons else "no data"


def _restarts() -> dashboard.AnnotationQuery:
    """Engine restarts and version changes stand on every graph: numbers before and after are not of one series."""
    family = names.ENGINE_INFO
    started = f"{sample(family)}{{{selection(family)}}} unless {sample(family)}{{{selection(family)}}} offset 5m"
    query = prometheus.Dataquery().datasource(PROMETHEUS).ref_id("A").expr(started).legend_format("{{version}}")
    return (
        dashboard.AnnotationQuery()
        .name("New engine or version")
        .datasource(PROMETHEUS)
        .enable(True)
        .icon_color("#CC79A7")
        .expr(started)
        .step("60s")
        .title_format("{{engine}}: {{version}}")
        .text_format("{{model}}, {{write_policy}}")
        .target(query)
    )
