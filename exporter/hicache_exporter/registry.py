"""Runs the collectors of a scrape, each on its own: one that fails costs its families and says so."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Collection, Iterable
from typing import Protocol

from prometheus_client.metrics_core import Metric

from hicache_exporter import names

log = logging.getLogger(__name__)


class Collector(Protocol):
    """Builds its families anew at every scrape, from what its source last knew. Never waits."""

    def collect(self) -> Iterable[Metric]: ...


class UnknownCollectorError(ValueError):
    """The message names the collectors that there are."""


class Registry:
    """Collectors by name, in the order in which they were registered."""

    def __init__(self, clock: Callable[[], float] = time.perf_counter) -> None:
        self._collectors: dict[str, Collector] = {}
        self._clock = clock
        self._failing: set[str] = set()

    def register(self, name: str, collector: Collector) -> None:
        if name in self._collectors:
            raise ValueError(f"a collector {name!r} is registered already")
        self._collectors[name] = collector

    @property
    def names(self) -> list[str]:
        return list(self._collectors)

    def collect(self, only: Collection[str] = ()) -> list[Metric]:
        """The families of all collectors, or of those named in ``only``. Raises UnknownCollectorError."""
        unknown = sorted(set(only) - self._collectors.keys())
        if unknown:
            raise UnknownCollectorError(f"no collector {', '.join(unknown)}; there are {', '.join(self._collectors)}")
        families: dict[str, Metric] = {}
        success = Metric(names.COLLECTOR_SUCCESS.name, names.COLLECTOR_SUCCESS.help, "gauge")
        seconds = Metric(
            names.COLLECTOR_SECONDS.name, names.COLLECTOR_SECONDS.help, "gauge", names.COLLECTOR_SECONDS.unit
        )
        for name, collector in self._collectors.items():
            if only and name not in only:
                continue
            began = self._clock()
            found = self._run(name, collector)
            for metric in found or ():
                _merge(families, metric)
            success.add_sample(success.name, {"collector": name}, found is not None)
            seconds.add_sample(seconds.name, {"collector": name}, self._clock() - began)
        return [*families.values(), success, seconds]

    def _run(self, name: str, collector: Collector) -> list[Metric] | None:
        """None if it failed; logged when it begins to fail, not at every scrape."""
        try:
            found = list(collector.collect())
        except Exception:
            if name not in self._failing:
                self._failing.add(name)
                log.exception("collector %s failed; its families are missing until it works again", name)
            return None
        self._failing.discard(name)
        return found


def _merge(families: dict[str, Metric], metric: Metric) -> None:
    """Two collectors may fill one family: it is still one family."""
    known = families.get(metric.name)
    if known is None:
        families[metric.name] = metric
    else:
        known.samples.extend(metric.samples)
