"""The ledger of one ring: records in, stories of requests and residency of blocks out.

Pure and bounded. A ring tells one rank of one engine process, in order; what other ranks tell meets it elsewhere.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from operator import itemgetter

from hicache_exporter.core import counting
from hicache_exporter.core.decoding import KIND, RID, SEQ, T_NS, Loss, Row, numbers
from hicache_exporter.core.identity import (
    DEVICE_EVICTION,
    LOADS,
    REQUIRED,
    REQUIRED_WITH_HICACHE,
    Identity,
    watches,
)
from hicache_exporter.core.moves import Moves
from hicache_exporter.core.observed import Sampled
from hicache_exporter.core.operations import ContentCheck, Move, Operation
from hicache_exporter.core.residency import Residency
from hicache_exporter.core.story import Story, TraceContext
from hicache_exporter.core.totals import Totals
from hicache_tracing.records import (
    ABSENT,
    RID_SIZE,
    Direction,
    Kind,
    Tier,
    decode_rid,
    encode_rid,
    unpack_pairs,
    unpack_runs,
)

MAX_STORIES = 4096
MAX_TEXTS = 8192
MAX_LOSSES = 4096
MAX_MARKS = 1024

_64 = 0xFFFFFFFFFFFFFFFF
_NOBODY = bytes(RID_SIZE)  # no request is concerned


@dataclass(frozen=True, slots=True)
class RingClock:
    """Places the monotonic times of a ring in the calendar."""

    monotonic_ns: int
    wall_ns: int

    def epoch_ns(self, t_ns: int) -> int:
        return self.wall_ns + t_ns - self.monotonic_ns

    def wall(self, t_ns: int) -> float:
        """Seconds since the epoch."""
        return self.epoch_ns(t_ns) / 1e9


class RankLedger:
    """Feed it with ``tell``; take what may have become judgeable from ``changed``."""

    def __init__(self, identity: Identity, totals: Totals, clock: RingClock, counting_from_ns: int) -> None:
        """Facts older than ``counting_from_ns`` are remembered, not counted: an earlier sidecar has counted them."""
        self.identity = identity
        self.clock = clock
        self.totals = Totals()  # where facts from before go
        self.stories: dict[bytes, Story] = {}
        self.changed: dict[Story, None] = {}
        """Stories with news since somebody last took them from here."""
        self.moved: deque[Move] = deque(maxlen=MAX_MARKS)
        """Finished transfers since somebody last took them from here."""
        self.memory: dict[str, int] = {}
        """The process's own account of its memory, in bytes, as it last told it."""
        self.residency = Residency(self._forgot, self._slots_overwritten)
        self.moves = Moves(self._forgot)
        self.losses: deque[Loss] = deque(maxlen=MAX_LOSSES)
        self.resets: deque[int] = deque(maxlen=MAX_MARKS)
        self.weights: deque[int] = deque(maxlen=MAX_MARKS)
        self.ended = False
        self.watching = False
        """Every fact that a proof needs is being recorded."""
        self.watching_loads = False
        self.watching_eviction = False
        self._real = totals
        self._counting_from_ns = counting_from_ns
        self._texts: dict[bytes, str] = {}
        self._extras: dict[int, bytes] = {}
        self._tellers: dict[int, Callable[[Row], None]] = {
            Kind.LOOKUP: self._lookup,
            Kind.ADMIT: self._admit,
            Kind.LOAD_BACK: self._load_back,
            Kind.LOAD: self._load,
            Kind.BACKUP: self._backup,
            Kind.TRANSFER: self._transfer,
            Kind.TRANSFER_DONE: self._transfer_done,
            Kind.EVICT: self._evict,
            Kind.RESET: self._reset,
            Kind.CONTENT: self._content,
            Kind.FIRST_TOKEN: self._first_token,
            Kind.FINISH: self._finish,
            Kind.TEXT: self._text,
            Kind.SEAM_FAULT: self._nothing,
            Kind.TRACE: self._trace,
            Kind.MEMORY: self._memory,
            Kind.WEIGHTS: self._weights,
            Kind.STORAGE_PREFETCH: self._storage_prefetch,
            Kind.STORAGE_BACKUP: self._nothing,
            Kind.STORAGE_ATTACH: self._nothing,
        }

    # -- in ----------------------------------------------------------------------------------------------------

    def tell(self, rows: list[Row], extras: dict[int, bytes], losses: Iterable[Loss]) -> None:
        """Take in what one read of the ring brought."""
        if self.totals is not self._real:
            live = bisect_left(rows, self._counting_from_ns, key=itemgetter(T_NS))
            self._tell(rows[:live], extras)
            if live == len(rows):
                rows = []
            else:
                self.totals, rows = self._real, rows[live:]
        self._tell(rows, extras)
        for loss in losses:
            self.losses.append(loss)
            self._real.lost[loss.reason] += loss.count

    def see_seams(self, states: dict[str, str]) -> None:
        """The state of every seam by name, as the process last reported it."""
        hicache = self.identity.has_hicache
        self.watching = watches(states, REQUIRED_WITH_HICACHE if hicache else REQUIRED)
        self.watching_loads = not hicache or watches(states, LOADS)
        self.watching_eviction = any(watches(states, (function,)) for function in DEVICE_EVICTION)

    def end(self) -> None:
        """The process is gone and its ring is read to the end: what it had not told it never will."""
        self.ended = True
        for story in self.stories.values():
            if not story.settled:
                self._close(story)

    def release(self) -> None:
        """Give back the memory of an ended ring; what was judged keeps what it needs."""
        self.stories.clear()
        self.residency.reset()
        self.moves = Moves(self._forgot)

    def _tell(self, rows: list[Row], extras: dict[int, bytes]) -> None:
        self._extras = extras
        tellers = self._tellers
        for row in rows:
            tellers[row[KIND]](row)
        self.totals.records += len(rows)

    # -- out ---------------------------------------------------------------------------------------------------

    def find(self, request_id: str) -> Story | None:
        return self.stories.get(encode_rid(request_id).ljust(RID_SIZE, b"\0"))

    def request_id(self, rid: bytes) -> str:
        """The text of a request id; of a long one whose text was lost, its short key."""
        return self._texts.get(rid) or decode_rid(rid)

    def lost_between(self, first: int, last: int) -> int:
        """Records lost at the positions from ``first`` to ``last``."""
        return sum(loss.count for loss in self.losses if loss.last >= first and loss.first <= last)

    # -- requests ----------------------------------------------------------------------------------------------

    def _story(self, row: Row) -> Story:
        rid = row[RID]
        story = self.stories.get(rid)
        if story is None:
            story = self.stories[rid] = Story(rid, row[SEQ])
            if len(self.stories) > MAX_STORIES:
                self._forget(next(iter(self.stories)))
        story.note(row)
        return story

    def _forget(self, rid: bytes) -> None:
        story = self.stories.pop(rid)
        if not story.settled:
            self._forgot("requests", 1)
            self._close(story)

    def _close(self, story: Story) -> None:
        story.closed = True
        if story.admit is not None:
            self.changed[story] = None

    def _lookup(self, row: Row) -> None:
        known = self.stories.get(row[RID])
        if known is not None and known.finish is not None:  # the id is used again
            self._forget(row[RID])
        story = self._story(row)
        if story.admit is None:
            # requests that wait together are looked up in turn, pass after pass: another lookup is another promise
            story.lookups += story.lookup is None or numbers(row)[1:3] != numbers(story.lookup)[1:3]
            story.lookup = row
            story.promised = max(story.promised, numbers(row)[2])

    def _load_back(self, row: Row) -> None:
        story = self._story(row)
        _, loaded, outcome, _, _, _, _, _ = numbers(row)
        counting.load_back(self.totals, outcome)
        if story.admit is None:
            story.load_back = row
            story.loaded = (story.loaded or 0) + max(loaded, 0)

    def _admit(self, row: Row) -> None:
        story = self._story(row)
        if story.admit is not None:
            return
        story.admit = row
        story.admitted_ns = row[T_NS]
        counting.admission(self.totals, story, row)
        self.changed[story] = None

    def _first_token(self, row: Row) -> None:
        story = self.stories.get(row[RID])
        if story is None or story.first_token_ns is not None:
            return
        story.note(row)
        story.first_token_ns = row[T_NS]
        received = numbers(row)[1]
        if received != ABSENT:
            story.ttft_seconds = max(row[T_NS] - received, 0) / 1e9
        if story.admit is not None:
            counting.first_token(self.totals, story, self._sampled(story, story.ttft_seconds or 0.0, row[T_NS]))
            self.changed[story] = None

    def _finish(self, row: Row) -> None:
        story = self.stories.get(row[RID])
        if story is not None:
            story.note(row)
            story.finish = row
            if story.admit is not None and not story.settled:
                self.changed[story] = None

    def _trace(self, row: Row) -> None:
        story = self._story(row)
        high, low, span, sampled = numbers(row)[:4]
        story.trace = TraceContext((high & _64) << 64 | low & _64, span & _64, bool(sampled))

    def _text(self, row: Row) -> None:
        self._texts[row[RID]] = self._extras.get(row[SEQ], b"")[: numbers(row)[0]].decode("utf-8", "replace")
        if len(self._texts) > MAX_TEXTS:
            del self._texts[next(iter(self._texts))]

    def _sampled(self, story: Story, value: float, t_ns: int) -> Sampled | None:
        trace = story.trace
        if trace is None or not trace.sampled:
            return None
        return Sampled(value, f"{trace.trace_id:032x}", self.clock.wall(t_ns))

    # -- copies ------------------------------------------------------------------------------------------------

    def _load(self, row: Row) -> None:
        node, tokens, identifier, runs, _, _, _, _ = numbers(row)
        load = Operation(identifier, Direction.HOST_TO_DEVICE, node, tokens, row[RID], row[SEQ], row[T_NS])
        load.read = self.residency.loaded(load, unpack_runs(self._extras.get(row[SEQ], b""), runs))
        if row[RID] != _NOBODY:
            load.story = self._story(row)
            if load.story.admit is None:
                load.story.loads.append(load)
        self.moves.queued(load)
        counting.load_queued(self.totals, load)

    def _backup(self, row: Row) -> None:
        node, tokens, identifier, runs, complete, accepted, _, _ = numbers(row)
        story = self.stories.get(row[RID])
        if story is not None:
            story.note(row)
        if not accepted:
            self.totals.backups_refused += 1
            return
        backup = Operation(identifier, Direction.DEVICE_TO_HOST, node, tokens, row[RID], row[SEQ], row[T_NS])
        backup.story = story
        self.moves.queued(backup)
        if complete:
            self.residency.backed_up(backup, unpack_runs(self._extras.get(row[SEQ], b""), runs))
        else:
            self.residency.forget_slots()

    def _transfer(self, row: Row) -> None:
        identifier, direction, operations, tokens, size, _, _, _ = numbers(row)
        move = Move(identifier, direction, tokens, size, row[SEQ], row[T_NS])
        self.moves.submitted(move, unpack_pairs(self._extras.get(row[SEQ], b""), operations))
        for story in move.stories:
            story.note(row)

    def _transfer_done(self, row: Row) -> None:
        identifier, direction, tokens, size, device_ns, finished, _, _ = numbers(row)
        device = None if device_ns == ABSENT else device_ns
        move = self.moves.done(identifier, row[T_NS], device, finished=bool(finished))
        if move is None:  # its start was not seen: it still counts as a transfer
            move = Move(identifier, direction, tokens, size, row[SEQ], row[T_NS])
            move.finished, move.done_ns, move.device_ns = bool(finished), row[T_NS], device
        exemplar = None
        for story in move.stories:
            story.note(row)
            exemplar = exemplar or self._sampled(story, (device or 0) / 1e9, row[T_NS])
        self._ended(move)
        counting.transfer_done(self.totals, move, self.identity.bytes_per_token, exemplar)
        if move.direction == Direction.HOST_TO_DEVICE and finished:
            counting.loads_finished(self.totals, move)

    def _ended(self, move: Move) -> None:
        self.moved.append(move)
        self._news(move)

    def _news(self, move: Move) -> None:
        for story in move.stories:
            if story.admit is not None:
                self.changed[story] = None

    def _content(self, row: Row) -> None:
        identifier, checked, mismatched, unseen, mode, layers, _, _ = numbers(row)
        check = ContentCheck(checked, mismatched, unseen, mode, layers)
        counting.content(self.totals, check)
        move = self.moves.find(identifier)
        if move is None:
            return
        move.content = check
        for story in move.stories:
            story.note(row)
        self._news(move)

    def _storage_prefetch(self, row: Row) -> None:
        runs, complete = numbers(row)[6:]
        if row[RID] != _NOBODY:
            self._story(row)
        if not complete:
            self.residency.forget_slots()
        elif runs > 0:
            self.residency.filled_from_storage(unpack_runs(self._extras.get(row[SEQ], b""), runs), row[T_NS])

    # -- the cache as a whole ----------------------------------------------------------------------------------

    def _evict(self, row: Row) -> None:
        tier, cause, node, tokens, _, _, _, _ = numbers(row)
        if tier == Tier.DEVICE:
            self.residency.left_device(node, cause, tokens, row[T_NS], row[SEQ])
        counting.eviction(self.totals, cause, tokens)

    def _reset(self, row: Row) -> None:
        self.resets.append(row[SEQ])
        self.totals.resets += 1
        self.residency.reset()
        for move in self.moves.reset():
            move.finished = False
            move.done_ns = row[T_NS]
            self._ended(move)

    def _weights(self, row: Row) -> None:
        self.weights.append(row[SEQ])

    def _memory(self, row: Row) -> None:
        fields = ("allocated", "reserved", "weights", "kv_pool", "host_pool", "host_pinned")
        self.memory = {name: value for name, value in zip(fields, numbers(row), strict=False) if value != ABSENT}

    def _nothing(self, row: Row) -> None:
        """Told by other means, or of no use here."""

    def _forgot(self, what: str, count: int) -> None:
        self.totals.forgotten[what] += count

    def _slots_overwritten(self, backup: Operation, now_ns: int) -> None:
        self.totals.l2_lifetime.observe(max(now_ns - backup.t_ns, 0) / 1e9)
