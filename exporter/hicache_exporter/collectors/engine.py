"""Engine reports as metric families, built anew at every scrape: what an engine no longer says is gone at once."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from prometheus_client.metrics_core import Metric

from hicache_exporter import names
from hicache_exporter.core.engine_report import EngineReport
from hicache_exporter.core.engine_view import Value
from hicache_exporter.names import Family

ENGINE_PREFIX = "sglang:"


class EngineCollector:
    """Publishes the reports that ``reports`` gives."""

    def __init__(self, reports: Callable[[], Iterable[EngineReport]]) -> None:
        self._reports = reports

    def collect(self) -> Iterable[Metric]:
        page = _Page()
        for report in self._reports():
            _health(page, report)
            if report.reading.up:
                _engine(page, report)
        return page.metrics.values()


class _Page:
    """The families of one scrape; those without a sample never come into being."""

    def __init__(self) -> None:
        self.metrics: dict[str, Metric] = {}

    def add(self, family: Family, engine: str, value: float, labels: Sequence[str] = ()) -> None:
        suffix = {"counter": "_total", "info": "_info"}.get(family.type, "")
        self._metric(family).add_sample(family.name + suffix, _labels(family, engine, labels), value)

    def add_value(self, engine: str, value: Value) -> None:
        if value.family.type == "histogram":
            self._add_histogram(engine, value)
        else:
            self.add(value.family, engine, value.values[0], value.labels)

    def _add_histogram(self, engine: str, value: Value) -> None:
        metric, name = self._metric(value.family), value.family.name
        labels = _labels(value.family, engine, value.labels)
        count, total, *buckets = value.values
        for bound, inside in zip(value.bounds, buckets, strict=True):
            metric.add_sample(name + "_bucket", {**labels, "le": bound}, inside)
        metric.add_sample(name + "_count", labels, count)
        metric.add_sample(name + "_sum", labels, total)

    def _metric(self, family: Family) -> Metric:
        metric = self.metrics.get(family.name)
        if metric is None:
            metric = self.metrics[family.name] = Metric(family.name, family.help, family.type, family.unit)
        return metric


def _labels(family: Family, engine: str, labels: Sequence[str]) -> dict[str, str]:
    return {"engine": engine, **dict(zip(family.labels, labels, strict=True))}


def _health(page: _Page, report: EngineReport) -> None:
    """What is true of an engine whether it answered or not."""
    reading = report.reading
    engine = reading.engine
    page.add(names.ENGINE_UP, engine, reading.up)
    page.add(names.ENGINE_SCRAPE_SECONDS, engine, reading.seconds)
    page.add(names.ENGINE_INFO_READ, engine, reading.info is not None)
    page.add(names.ENGINE_RESTARTS, engine, report.restarts)
    page.add(names.ENGINE_BACKWARD_STEPS, engine, report.anomalies)
    for reason, count in report.failures.items():
        page.add(names.ENGINE_SCRAPE_FAILURES, engine, count, (reason,))
    for metric, flag in report.missing.items():
        page.add(names.ENGINE_FAMILY_MISSING, engine, 1, (ENGINE_PREFIX + metric, flag))


def _engine(page: _Page, report: EngineReport) -> None:
    """What the engine says."""
    engine, seen = report.reading.engine, report.view
    for value in report.values:
        page.add_value(engine, value)
    for (family, basis), ranks in seen.basis.items():
        page.add(names.ENGINE_RANK_BASIS, engine, ranks, (family, basis))
    for tier, by_engine in seen.tiers_seen.items():
        page.add(names.ENGINE_TIER_SEEN, engine, by_engine, (tier,))
    for reporter in report.reporters:
        page.add(names.ENGINE_RANKS_SEEN, engine, reporter.seen, (reporter.name,))
        if reporter.expected is not None:
            page.add(names.ENGINE_RANKS_EXPECTED, engine, reporter.expected, (reporter.name,))
    page.add(names.ENGINE_INFO, engine, 1, [report.description[label] for label in names.ENGINE_INFO.labels])
    page.add(names.ENGINE_UNREADABLE_LINES, engine, report.unreadable)
