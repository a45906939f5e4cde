"""All alerts, as the groups of a Prometheus rule file."""

from __future__ import annotations

from hicache_dashboards.alerts import engine, gpu, hits, host, l2, proof, recorder, sidecar, storage, ttft
from hicache_dashboards.alerts.model import Alert
from hicache_dashboards.config import Settings


def alert_groups(settings: Settings) -> dict[str, list[Alert]]:
    return {
        "hicache-engine-alerts": engine.alerts(settings),
        "hicache-hits-alerts": hits.alerts(settings),
        "hicache-ttft-alerts": ttft.alerts(settings),
        "hicache-l2-alerts": l2.alerts(settings),
        "hicache-proof-alerts": proof.alerts(settings),
        "hicache-recorder-alerts": recorder.alerts(settings),
        "hicache-gpu-alerts": gpu.alerts(settings),
        "hicache-host-alerts": host.alerts(settings),
        "hicache-storage-alerts": storage.alerts(settings),
        "hicache-sidecar-alerts": sidecar.alerts(settings),
    }
