"""Where to go from a board: the other boards, the runbooks, the traces."""

from __future__ import annotations

import json
from urllib.parse import quote

from hicache_dashboards.boards import traces
from hicache_dashboards.boards.model import Panel
from hicache_dashboards.boards.variables import TRACES
from hicache_dashboards.config import Settings
from hicache_dashboards.grafana import dashboard, models


class Link(dashboard.DashboardLink):
    """The SDK puts every link into the controls menu, where nobody looks; without a placement it is shown."""

    def build(self) -> models.DashboardLink:
        link = super().build()
        link.placement = None  # type: ignore[assignment]
        return link


def board_links(settings: Settings) -> list[dashboard.DashboardLink]:
    boards = (
        Link("Boards")
        .type(models.DashboardLinkType.DASHBOARDS)
        .tags(["hicache"])
        .as_dropdown(True)
        .include_vars(True)
        .keep_time(True)
    )
    runbooks = _url("Runbooks", settings.links.runbook.format(alert="README"))
    return [boards, runbooks, _url("Traces", trace_url(traces.ANY))]


def panel_links(panel: Panel, settings: Settings) -> list[dashboard.DashboardLink]:
    runbooks = [_url(f"Runbook: {alert}", settings.links.runbook.format(alert=alert)) for alert in panel.alerts]
    return [*runbooks, *([_url("Traces behind this", trace_url(panel.traced))] if panel.traced else [])]


def trace_url(traceql: str) -> str:
    """Grafana's Explore on the chosen Tempo, over the board's time range. The variables stay readable for Grafana."""
    pane = {
        "datasource": f"${{{TRACES}}}",
        "queries": [{"refId": "A", "queryType": "traceql", "query": traceql}],
        "range": {"from": "${__from}", "to": "${__to}"},
    }
    return f"/explore?schemaVersion=1&panes={quote(json.dumps({'a': pane}), safe='${}')}"


def _url(title: str, url: str) -> dashboard.DashboardLink:
    return Link(title).type(models.DashboardLinkType.LINK).url(url).target_blank(True)
