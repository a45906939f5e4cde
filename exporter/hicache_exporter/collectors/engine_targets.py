"""The list of engines itself: labels that its files give them, and whether the files could be read."""

from __future__ import annotations

from collections.abc import Iterable

from prometheus_client.metrics_core import Metric

from hicache_exporter import names
from hicache_exporter.sources.targets import Targets


class EngineTargetsCollector:
    def __init__(self, targets: Targets) -> None:
        self._targets = targets

    def collect(self) -> Iterable[Metric]:
        labels = Metric(names.ENGINE_TARGET.name, names.ENGINE_TARGET.help, "info")
        for target in self._targets.current():
            labels.add_sample(names.ENGINE_TARGET.name + "_info", {"engine": target.engine, **target.labels}, 1)
        files = Metric(names.ENGINE_TARGETS_FILE_OK.name, names.ENGINE_TARGETS_FILE_OK.help, "gauge")
        for file in self._targets.files:
            files.add_sample(names.ENGINE_TARGETS_FILE_OK.name, {"file": str(file.path)}, file.ok)
        return [metric for metric in (labels, files) if metric.samples]
