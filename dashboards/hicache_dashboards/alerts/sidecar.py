"""Who watches the watcher?"""

from __future__ import annotations

from hicache_dashboards.alerts.model import Alert
from hicache_dashboards.alerts.template import INSTANCE, value
from hicache_dashboards.config import Settings
from hicache_dashboards.promql import select
from hicache_dashboards.rules.expressions import occurred
from hicache_exporter import names


def alerts(settings: Settings) -> list[Alert]:
    w, up = settings.windows, f'up{{job="{settings.scrape.job}"}}'
    return [
        Alert(
            name="HiCacheSidecarDown",
            area="sidecar",
            severity="critical",
            board="hicache-fleet",
            wait=w.brief,
            expr=f"{up} == 0",
            summary=f"The sidecar {INSTANCE} does not answer: its engines are unwatched.",
            action="The engines are not affected. Restart the sidecar; see its log for the reason.",
        ),
        Alert(
            name="HiCacheSidecarAbsent",
            area="sidecar",
            severity="critical",
            board="hicache-fleet",
            wait=w.sustained,
            expr=f"absent({up})",
            summary=f"Prometheus has no sidecar to scrape under the job {settings.scrape.job}.",
            action="Check service discovery: the target is missing, not down.",
        ),
        Alert(
            name="HiCacheCollectorFailing",
            area="sidecar",
            severity="warning",
            board="hicache-fleet",
            wait=w.recent,
            expr=f"{select(names.COLLECTOR_SUCCESS)} == 0",
            summary=f"Collector {{{{ $labels.collector }}}} of the sidecar {INSTANCE} fails: its series are missing.",
            action="The sidecar's log names the error.",
        ),
        Alert(
            name="HiCacheSpansLost",
            area="sidecar",
            severity="info",
            board="hicache-fleet",
            wait=w.brief,
            expr=occurred(names.SPANS, w.event, w.trend, keep=("outcome",), matchers={"outcome": "!=exported"}),
            summary=f"{value()} spans of {INSTANCE} never arrived in {w.event} ({{{{ $labels.outcome }}}}).",
            action="Check the OTLP endpoint; metrics and verdicts go on without it.",
        ),
    ]
