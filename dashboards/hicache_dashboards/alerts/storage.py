"""Does L3 keep up?"""

from __future__ import annotations

from hicache_dashboards.alerts.model import Alert
from hicache_dashboards.alerts.template import ENGINE, recorded, value
from hicache_dashboards.config import Settings
from hicache_dashboards.promql import number
from hicache_dashboards.rules import storage


def alerts(settings: Settings) -> list[Alert]:
    trend = settings.windows.trend
    return [
        Alert(
            name="HiCacheStoragePrefetchTimeouts",
            area="storage",
            severity="warning",
            board="hicache-storage",
            wait=settings.windows.sustained,
            expr=(
                f"{storage.TIMEOUT_RATIO} > {number(settings.storage.timeouts)}\n"
                f"and {storage.FOUND} > {number(settings.traffic.moved_tokens_per_trend)}"
            ),
            summary=(
                f"{value('humanizePercentage')} of the {recorded(storage.FOUND)} tokens that {ENGINE} found in L3"
                f" in {trend} came too late."
            ),
            action="Compare the bandwidth of the storage with the prefetch policy's deadline.",
        )
    ]
