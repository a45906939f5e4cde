"""The page of alerts, from the package that writes the rule files; thresholds as shipped."""

from __future__ import annotations

from hicache_dashboards import config
from hicache_dashboards.alerts.groups import alert_groups
from hicache_dashboards.alerts.model import Alert

from .markdown import code, page, table

INTRODUCTION = """
`critical` wakes somebody, `warning` opens a ticket, `info` is only shown on the boards. Each alert has a runbook. The
expressions are in `dashboards/generated/prometheus/hicache-alerts.yaml`; `hicache-witness rules --list` shows the
thresholds, `hicache-witness rules --set SECTION.KEY=VALUE` prints the rules with yours.
"""
RUNBOOKS = "../../dashboards/runbooks"


def rendered() -> str:
    groups = [
        f"## {name.removeprefix('hicache-').removesuffix('-alerts')}\n\n"
        + table(("alert", "severity", "after", "first thing to do"), map(_line, alerts))
        for name, alerts in alert_groups(config.load()).items()
    ]
    return page("Alerts", INTRODUCTION, *groups, source="dashboards/hicache_dashboards/alerts")


def _line(alert: Alert) -> list[str]:
    name = f"[{alert.name}]({RUNBOOKS}/{alert.name}.md)"
    return [name, alert.severity, code(alert.wait), alert.action.replace("|", "\\|")]
