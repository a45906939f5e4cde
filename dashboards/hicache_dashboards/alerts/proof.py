"""Is what was read back what was written, and do the witnesses agree?"""

from __future__ import annotations

from hicache_dashboards.alerts.model import Alert
from hicache_dashboards.alerts.template import ENGINE, value
from hicache_dashboards.config import Settings
from hicache_dashboards.rules.expressions import occurred
from hicache_exporter import names


def alerts(settings: Settings) -> list[Alert]:
    event, memory = settings.windows.event, settings.windows.trend
    return [
        Alert(
            name="HiCacheContentDamaged",
            area="proof",
            severity="critical",
            board="hicache-proof",
            expr=occurred(names.CONTENT_TOTAL, event, memory, matchers={"content": "damaged"}),
            summary=f"{ENGINE} loaded KV pages that differ from what was backed up: {value()} requests in {event}.",
            action="Answers may be wrong. Take the engine out of rotation, then follow the runbook.",
        ),
        Alert(
            name="HiCacheVerdictsContradicted",
            area="proof",
            severity="warning",
            board="hicache-proof",
            expr=occurred(names.VERDICTS_TOTAL, event, memory, matchers={"verdict": "contradicted"}),
            summary=f"Two witnesses disagreed about {value()} requests of {ENGINE} in {event}.",
            action="Open one of those requests on the sidecar's page: its verdict names the two witnesses.",
        ),
    ]
