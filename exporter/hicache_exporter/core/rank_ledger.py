"""The ledger of one ring: records in, stories of requests and residency of blocks out.

Pure and bounded. A ring tells one rank of one engine process, in order; what other ranks tell meets it elsewhere.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import deque
from collections.abc import Callable, Iterable
from operator import itemgetter

from hicache_exporter.core.cache_events import MAX_MARKS, CacheEvents
from hicache_exporter.core.decoding import KIND, SEQ, T_NS, Loss, Row, numbers
from hicache_exporter.core.identity import (
    DEVICE_EVICTION,
    LOADS,
    REQUIRED,
    REQUIRED_WITH_HICACHE,
    STORAGE_DELIVERY,
    Identity,
    watches,
)
from hicache_exporter.core.operations import Move
from hicache_exporter.core.requests import Requests
from hicache_exporter.core.story import Story
from hicache_exporter.core.tally import RingClock, Tally
from hicache_exporter.core.totals import Totals
from hicache_tracing.records import ABSENT, RID_SIZE, Kind, encode_rid

__all__ = ["RankLedger", "RingClock"]

MAX_LOSSES = 4096


class RankLedger:
    """Feed it with ``tell``; take what may have become judgeable with ``news``."""

    def __init__(self, identity: Identity, totals: Totals, clock: RingClock, counting_from_ns: int) -> None:
        """Facts older than ``counting_from_ns`` are remembered, not counted: an earlier sidecar has counted them."""
        self.identity = identity
        self.clock = clock
        self.memory: dict[str, int] = {}
        """The process's own account of its memory, in bytes, as it last told it."""
        self.losses: deque[Loss] = deque(maxlen=MAX_LOSSES)
        self.weights: deque[int] = deque(maxlen=MAX_MARKS)
        """Positions of the records that told of new weights."""
        self.ended = False
        self.watching = False
        """Every fact that a proof needs is being recorded."""
        self.watching_loads = False
        self.watching_eviction = False
        self._totals = totals
        self._counting_from_ns = counting_from_ns
        self._tally = Tally(Totals())
        self._requests = Requests(self._tally, clock, leads=identity.leads)
        self._cache = CacheEvents(self._requests, self._tally, identity.bytes_per_token)
        tellers: dict[int, Callable[[Row], None]] = {
            **dict.fromkeys(Kind, self._nothing),
            **self._requests.tellers,
            **self._cache.tellers,
            Kind.MEMORY: self._memory,
            Kind.WEIGHTS: self._weights,
            Kind.SEAM_FAULT: self._seam_fault,
            Kind.STORAGE_ATTACH: self._storage_attach,
            Kind.STORAGE_BACKUP: self._storage_at_work,
            Kind.STORAGE_PREFETCH: self._storage_prefetch,
        }
        self._tellers = {int(kind): tell for kind, tell in tellers.items()}  # looked up for every record
        self._seams: dict[str, str] = {}
        self._has_storage = bool(identity.facts.get("storage_backend"))

    # -- in ----------------------------------------------------------------------------------------------------

    def tell(self, rows: list[Row], extras: dict[int, bytes], losses: Iterable[Loss]) -> None:
        """Take in what one read of the ring brought."""
        self._tally.extras = extras
        if self._tally.totals is not self._totals:
            live = bisect_left(rows, self._counting_from_ns, key=itemgetter(T_NS))
            self._tell(rows[:live])
            rows = rows[live:]
            if rows:
                self._tally.totals = self._totals
        self._tell(rows)
        for loss in losses:
            self.losses.append(loss)
            self._totals.lost[loss.reason] += loss.count

    def see_seams(self, states: dict[str, str]) -> None:
        """The state of every seam by name, as the process last reported it."""
        self._seams = states
        hicache = self.identity.has_hicache
        self.watching = self._watches(*(REQUIRED_WITH_HICACHE if hicache else REQUIRED)) and (
            not self._has_storage or any(map(self._watches, STORAGE_DELIVERY))
        )
        self.watching_loads = not hicache or self._watches(*LOADS)
        self.watching_eviction = any(map(self._watches, DEVICE_EVICTION))

    def _watches(self, *functions: str) -> bool:
        return watches(self._seams, functions, self.identity.in_use)

    def end(self) -> None:
        """The process is gone and its ring is read to the end: what it had not told it never will."""
        self.ended = True
        self._requests.close()

    def release(self) -> None:
        """Give back the memory of an ended ring; what was judged keeps what it needs."""
        self.stories.clear()
        self._cache.release()

    def _tell(self, rows: list[Row]) -> None:
        tellers = self._tellers
        for row in rows:
            tellers[row[KIND]](row)
        self._tally.totals.records += len(rows)

    # -- out ---------------------------------------------------------------------------------------------------

    @property
    def totals(self) -> Totals:
        """Where facts are being counted at this moment."""
        return self._tally.totals

    @property
    def stories(self) -> dict[bytes, Story]:
        """Requests by their id as the records carry it."""
        return self._requests.stories

    @property
    def moved(self) -> deque[Move]:
        """Finished transfers, to be taken out."""
        return self._cache.moved

    @property
    def resets(self) -> deque[int]:
        return self._cache.resets

    def news(self) -> list[Story]:
        """The requests of which something was told since the last time."""
        changed, self._requests.changed = self._requests.changed, {}
        return list(changed)

    def find(self, request_id: str) -> Story | None:
        return self.stories.get(encode_rid(request_id).ljust(RID_SIZE, b"\0"))

    def request_id(self, rid: bytes) -> str:
        """The text of a request id; of a long one whose text was lost, its short key."""
        return self._requests.request_id(rid)

    def lost_between(self, first: int, last: int) -> int:
        """Records lost at the positions from ``first`` to ``last``."""
        return sum(loss.count for loss in self.losses if loss.last >= first and loss.first <= last)

    # -- what concerns neither requests nor blocks -----------------------------------------------------------------

    def _weights(self, row: Row) -> None:
        self.weights.append(row[SEQ])

    def _memory(self, row: Row) -> None:
        fields = ("allocated", "reserved", "weights", "kv_pool", "host_pool", "host_pinned")
        self.memory = {name: value for name, value in zip(fields, numbers(row), strict=False) if value != ABSENT}

    def _seam_fault(self, row: Row) -> None:
        """A step of the recorder's failed: what it would have told is missing here as much as a record that was lost.
        Not in the count of lost records: the seam's own faults are counted by seam.
        """
        self.losses.append(Loss("writer_dropped", row[SEQ], row[SEQ], 1))

    def _storage_attach(self, row: Row) -> None:
        attached, succeeded = numbers(row)[:2]
        if attached and succeeded:
            self._storage_at_work(row)

    def _storage_at_work(self, _row: Row) -> None:
        """It is there, whoever attached it. For good: what it put into the host stays there when it is detached."""
        if not self._has_storage:
            self._has_storage = True
            self.see_seams(self._seams)

    def _storage_prefetch(self, row: Row) -> None:
        self._storage_at_work(row)
        self._cache.tellers[Kind.STORAGE_PREFETCH](row)

    def _nothing(self, row: Row) -> None:
        """Told by other means, or of no use here."""
