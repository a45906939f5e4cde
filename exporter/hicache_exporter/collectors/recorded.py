"""What the recorder's collectors share: the engines that are being recorded now, and the sums over their ranks."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from operator import attrgetter
from typing import Any

from hicache_exporter.core.engine_ledger import EngineLedger
from hicache_exporter.core.observed import Histogram
from hicache_exporter.core.totals import Totals
from hicache_exporter.follower import Follower


def recorded_engines(follower: Follower) -> Iterator[tuple[str, list[Totals], list[Totals]]]:
    """(label, totals of its leading ranks, totals of all its ranks) of each engine with a living recorder.

    An engine whose recorders are all gone has no series in this very scrape. When it comes back they go on where they
    stopped: the totals belong to the label and the rank, not to the process.
    """
    for label, engine in follower.engines.items():
        if any(found.alive for found in follower.live_ranks(label)):
            yield label, leading_totals(engine), list(engine.totals.values())


def leading_totals(engine: EngineLedger) -> list[Totals]:
    return [totals for rank, totals in engine.totals.items() if rank in engine.leading]


def total(ranks: Iterable[Totals], name: str) -> int:
    return sum(map(attrgetter(name), ranks))


def by_label(ranks: list[Totals], name: str) -> dict[str, int]:
    """A dictionary of counts, added up over ranks."""
    sums: dict[str, int] = {}
    for counts in map(attrgetter(name), ranks):
        for label, count in counts.items():
            sums[label] = sums.get(label, 0) + count
    return sums


def histograms(ranks: list[Totals], name: str) -> dict[str, Histogram]:
    """A dictionary of histograms, added up over ranks."""
    sums: dict[str, Histogram] = {}
    for each in map(attrgetter(name), ranks):
        for label, observed in each.items():
            sums.setdefault(label, Histogram(observed.bounds)).add(observed)
    return sums


def histogram(ranks: list[Totals], name: str) -> Histogram:
    observed: list[Any] = [getattr(totals, name) for totals in ranks]
    sums = Histogram(observed[0].bounds)
    for each in observed:
        sums.add(each)
    return sums
