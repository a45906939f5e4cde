"""The one door to grafana-foundation-sdk.

It warns on import that the v1 schema is superseded. v1 is what Grafana 10 to 13 all load from files,
so this one warning is answered here, and nothing else is silenced.
"""

from __future__ import annotations

import warnings

with warnings.catch_warnings():
    warnings.filterwarnings("ignore", message="Prefer using dashboardv2", category=DeprecationWarning)
    from grafana_foundation_sdk.builders import (
        bargauge,
        common,
        dashboard,
        heatmap,
        prometheus,
        stat,
        statetimeline,
        table,
        timeseries,
    )
    from grafana_foundation_sdk.cog.encoder import JSONEncoder
    from grafana_foundation_sdk.models import common as common_models
    from grafana_foundation_sdk.models import dashboard as models
    from grafana_foundation_sdk.models import heatmap as heatmap_models
    from grafana_foundation_sdk.models import prometheus as prometheus_models

__all__ = [
    "JSONEncoder",
    "bargauge",
    "common",
    "common_models",
    "dashboard",
    "heatmap",
    "heatmap_models",
    "models",
    "prometheus",
    "prometheus_models",
    "stat",
    "statetimeline",
    "table",
    "timeseries",
]
