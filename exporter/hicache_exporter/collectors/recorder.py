"""Health of the flight recorders: which are read, what was lost, and the state of every seam."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from prometheus_client.metrics_core import Metric

from hicache_exporter import names
from hicache_exporter.collectors.families import Families
from hicache_exporter.collectors.page import Page
from hicache_exporter.core.identity import function_of
from hicache_exporter.follower import Followed, Follower
from hicache_exporter.sources.ring_file import REASONS

IN_PLACE = ("attached", "tripped")
ABSENT = ("missing", "pending")


class RecorderCollector:
    """Counters of a rank stay when its process is gone, so that what was lost at the end is seen."""

    def __init__(self, follower: Follower) -> None:
        self._follower = follower

    def collect(self) -> Iterable[Metric]:
        families = Families()
        for label, engine in self._follower.engines.items():
            live = {found.ledger.identity.rank: found for found in self._follower.live_ranks(label)}
            for rank, totals in engine.totals.items():
                families.add(names.RECORDER_UP, label, rank in live and live[rank].alive, rank)
                families.add(names.RECORDS, label, totals.records, rank)
                families.by_label(names.RECORDS_LOST, label, totals.lost, rank)
                families.by_label(names.LEDGER_FORGOTTEN, label, totals.forgotten, rank)
            for rank, found in live.items():
                families.add(names.RECORDER_LAG, label, found.fill, rank)
                _seams(families, label, rank, found)
        return [*families.metrics(), *self._rings()]

    def _rings(self) -> Iterable[Metric]:
        page, follower = Page(), self._follower
        ended = sum(found.ledger.ended for found in follower.followed.values())
        states = {
            "followed": len(follower.followed) - ended,
            "waiting": follower.waiting,
            "ended": ended,
            "other_engine": follower.other_engine,
        }
        for state in names.RING_STATES:
            page.add(names.RINGS, states[state], state)
        refused = Counter(reason.reason for reason in follower.folder.refused.values())
        if follower.folder.trouble is not None:
            refused[follower.folder.trouble.reason] += 1
        for reason in REASONS:
            page.add(names.RINGS_REFUSED, refused[reason], reason)
        return page.metrics()


def _seams(families: Families, engine: str, rank: str, found: Followed) -> None:
    """Every seam that is in place or should be. One of a class that this engine has no use for says nothing."""
    in_place = {function_of(seam.name) for seam in found.seams if seam.state in IN_PLACE}
    for seam in found.seams:
        if seam.state in IN_PLACE:
            families.add(names.SEAM_FIRED, engine, seam.fired, rank, seam.name)
            families.add(names.SEAM_FAULTS, engine, seam.faults, rank, seam.name)
        elif seam.state in ABSENT and function_of(seam.name) in in_place:
            continue  # another class of this engine has it
        families.add(names.SEAM_STATE, engine, 1, rank, seam.name, seam.state)
