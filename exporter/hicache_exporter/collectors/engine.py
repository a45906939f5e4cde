"""Engine reports as metric families, built anew at every scrape: what an engine no longer says is gone at once."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from prometheus_client.metrics_core import Metric

from hicache_exporter import names
from hicache_exporter.collectors.families import Families
from hicache_exporter.core.engine_report import EngineReport

ENGINE_PREFIX = "sglang:"


class EngineCollector:
    """Publishes the reports that ``reports`` gives."""

    def __init__(self, reports: Callable[[], Iterable[EngineReport]]) -> None:
        self._reports = reports

    def collect(self) -> Iterable[Metric]:
        page = Families()
        for report in self._reports():
            _health(page, report)
            if report.reading.up:
                _numbers(page, report)
                _basis(page, report)
        return page.metrics()


def _health(page: Families, report: EngineReport) -> None:
    """What is true of an engine whether it answered or not."""
    reading = report.reading
    engine = reading.engine
    page.add(names.ENGINE_UP, engine, reading.up)
    page.add(names.ENGINE_SCRAPE_SECONDS, engine, reading.seconds)
    page.add(names.ENGINE_INFO_READ, engine, reading.info is not None)
    page.add(names.ENGINE_RESTARTS, engine, report.restarts)
    page.add(names.ENGINE_BACKWARD_STEPS, engine, report.anomalies)
    page.by_label(names.ENGINE_SCRAPE_FAILURES, engine, report.failures)
    for metric, flag in report.missing.items():
        page.add(names.ENGINE_FAMILY_MISSING, engine, 1, ENGINE_PREFIX + metric, flag)


def _numbers(page: Families, report: EngineReport) -> None:
    """What the engine says."""
    engine = report.reading.engine
    for value in report.values:
        if value.bounds:
            page.cumulative(value.family, engine, value.bounds, value.values, *value.labels)
        else:
            page.add(value.family, engine, value.values[0], *value.labels)
    page.add(names.ENGINE_INFO, engine, 1, *(report.description[label] for label in names.ENGINE_INFO.labels))
    page.add(names.ENGINE_UNREADABLE_LINES, engine, report.unreadable)


def _basis(page: Families, report: EngineReport) -> None:
    """How its numbers came about."""
    engine, seen = report.reading.engine, report.view
    for (family, basis), ranks in seen.basis.items():
        page.add(names.ENGINE_RANK_BASIS, engine, ranks, family, basis)
    page.by_label(names.ENGINE_TIER_SEEN, engine, seen.tiers_seen)
    for reporter in report.reporters:
        page.add(names.ENGINE_RANKS_SEEN, engine, reporter.seen, reporter.name)
        if reporter.expected is not None:
            page.add(names.ENGINE_RANKS_EXPECTED, engine, reporter.expected, reporter.name)
