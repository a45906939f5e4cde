"""The cache of one rank: copies between device and host, and what they and the evictions did to its blocks."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from hicache_exporter.core import counting
from hicache_exporter.core.decoding import RID, SEQ, T_NS, Row, numbers
from hicache_exporter.core.moves import Moves
from hicache_exporter.core.operations import ContentCheck, Move, Operation
from hicache_exporter.core.requests import Requests
from hicache_exporter.core.residency import Residency
from hicache_exporter.core.tally import Tally
from hicache_tracing.records import ABSENT, RID_SIZE, Direction, Kind, Tier, unpack_pairs, unpack_runs

MAX_MARKS = 1024

_NOBODY = bytes(RID_SIZE)  # no request is concerned
_TO_DEVICE, _TO_HOST, _DEVICE = Direction.HOST_TO_DEVICE, Direction.DEVICE_TO_HOST, Tier.DEVICE
# bound once: in Python 3.11 looking up an enum's member takes 0.1 us, and this is done for every record


class CacheEvents:
    """Follows every queued copy to its end, and tells the requests that it served."""

    def __init__(self, requests: Requests, tally: Tally, bytes_per_token: int | None) -> None:
        self.moved: deque[Move] = deque(maxlen=MAX_MARKS)
        """Finished transfers since somebody last took them from here."""
        self.resets: deque[int] = deque(maxlen=MAX_MARKS)
        """Positions of the records that told of a flush."""
        self._requests = requests
        self._tally = tally
        self._bytes_per_token = bytes_per_token
        self._residency = Residency(tally.forgot, self._slots_overwritten)
        self._moves = Moves(tally.forgot)
        self.tellers: dict[int, Callable[[Row], None]] = {
            Kind.LOAD: self._load,
            Kind.BACKUP: self._backup,
            Kind.TRANSFER: self._transfer,
            Kind.TRANSFER_DONE: self._transfer_done,
            Kind.EVICT: self._evict,
            Kind.RESET: self._reset,
            Kind.CONTENT: self._content,
            Kind.STORAGE_PREFETCH: self._storage_prefetch,
        }

    def release(self) -> None:
        """Give back memory: nothing more will be told."""
        self._residency.reset()
        self._moves = Moves(self._tally.forgot)

    def _load(self, row: Row) -> None:
        seq, _, _, _, t_ns, rid, node, tokens, identifier, runs, _, _, _, _ = row
        load = Operation(identifier, _TO_DEVICE, node, tokens, rid, seq, t_ns)
        load.read = self._residency.loaded(load, unpack_runs(self._tally.extra(seq), runs))
        if rid != _NOBODY:
            load.story = story = self._requests.story(row)
            if story.admit is None:
                story.loads.append(load)
        self._moves.queued(load)
        counting.load_queued(self._tally.totals, load)

    def _backup(self, row: Row) -> None:
        seq, _, _, _, t_ns, rid, node, tokens, identifier, runs, complete, accepted, _, _ = row
        story = self._requests.stories.get(rid)
        if story is not None:
            story.note(row)
        if not accepted:
            self._tally.totals.backups_refused += 1
            return
        backup = Operation(identifier, _TO_HOST, node, tokens, rid, seq, t_ns)
        backup.story = story
        self._moves.queued(backup)
        if complete:
            self._residency.backed_up(backup, unpack_runs(self._tally.extra(seq), runs))
        else:
            self._residency.forget_slots()

    def _transfer(self, row: Row) -> None:
        seq, _, _, _, t_ns, _, identifier, direction, operations, tokens, size, _, _, _ = row
        move = Move(identifier, direction, tokens, size, seq, t_ns)
        self._moves.submitted(move, unpack_pairs(self._tally.extra(seq), operations))
        for story in move.stories:
            story.note(row)

    def _transfer_done(self, row: Row) -> None:
        seq, _, _, _, t_ns, _, identifier, direction, tokens, size, device_ns, finished, _, _ = row
        device = None if device_ns == ABSENT else device_ns
        move = self._moves.done(identifier, t_ns, device, finished=bool(finished))
        if move is None:  # its start was not seen: it still counts as a transfer
            move = Move(identifier, direction, tokens, size, seq, t_ns)
            move.finished, move.done_ns, move.device_ns = bool(finished), t_ns, device
        exemplar = None
        for story in move.stories:
            story.note(row)
            if story.trace is not None:
                exemplar = exemplar or self._requests.sampled(story, (device or 0) / 1e9, t_ns)
        self._ended(move)
        counting.transfer_done(self._tally.totals, move, self._bytes_per_token, exemplar)
        if move.direction == _TO_DEVICE and finished:
            counting.loads_finished(self._tally.totals, move)

    def _ended(self, move: Move) -> None:
        self.moved.append(move)
        self._news(move)

    def _news(self, move: Move) -> None:
        for story in move.stories:
            self._requests.news(story)

    def _content(self, row: Row) -> None:
        identifier, checked, mismatched, unseen, mode, layers, _, _ = numbers(row)
        check = ContentCheck(checked, mismatched, unseen, mode, layers)
        counting.content(self._tally.totals, check)
        move = self._moves.find(identifier)
        if move is None:
            return
        move.content = check
        for story in move.stories:
            story.note(row)
        self._news(move)

    def _storage_prefetch(self, row: Row) -> None:
        runs, complete = numbers(row)[6:]
        if row[RID] != _NOBODY:
            self._requests.story(row)
        if not complete:
            self._residency.forget_slots()
        elif runs > 0:
            self._residency.filled_from_storage(unpack_runs(self._tally.extra(row[SEQ]), runs), row[T_NS])

    def _evict(self, row: Row) -> None:
        seq, _, _, _, t_ns, _, tier, cause, node, tokens, runs, complete, _, _ = row
        if tier == _DEVICE:
            kept = unpack_runs(self._tally.extra(seq), runs) if complete else None
            self._residency.left_device(node, cause, tokens, t_ns, seq, kept)
        counting.eviction(self._tally.totals, cause, tokens)

    def _reset(self, row: Row) -> None:
        self.resets.append(row[SEQ])
        self._tally.totals.resets += 1
        self._residency.reset()
        for move in self._moves.reset():
            move.finished = False
            move.done_ns = row[T_NS]
            self._ended(move)

    def _slots_overwritten(self, backup: Operation, now_ns: int) -> None:
        self._tally.totals.l2_lifetime.observe(max(now_ns - backup.t_ns, 0) / 1e9)
