"""From queued operation to finished transfer, for both directions. Bounded: what never ends is forgotten."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable

from hicache_exporter.core.operations import Move, Operation

MAX_QUEUED = 1 << 14
MAX_OPEN = 1 << 12
MAX_RECENT = 1 << 10

Pair = tuple[int, int]
"""(node id, operation id)"""


class Moves:
    """Operation ids count per direction, transfer ids over both."""

    def __init__(self, forgot: Callable[[str, int], None] = lambda what, count: None) -> None:
        """``forgot(what, count)`` is told of what had to go."""
        self._forgot = forgot
        self._queued: dict[Pair, Operation] = {}  # by (direction, operation id)
        self._early: dict[Pair, Move] = {}  # operations that were submitted before they were told of
        self._open: dict[int, Move] = {}
        self._recent: OrderedDict[int, Move] = OrderedDict()  # always full: a dict seeks its first key past all gaps

    def queued(self, operation: Operation) -> None:
        """An operation was told of. Older controllers start a backup's transfer before that."""
        key = (operation.direction, operation.identifier)
        early = self._early.pop(key, None)
        if early is not None:
            early.carry(operation)
            return
        self._queued[key] = operation
        if len(self._queued) > MAX_QUEUED:
            self._queued.pop(next(iter(self._queued))).story = None
            self._forgot("operations", 1)

    def submitted(self, move: Move, pairs: Iterable[Pair]) -> None:
        for _, identifier in pairs:
            key = (move.direction, identifier)
            operation = self._queued.pop(key, None)
            if operation is not None:
                move.carry(operation)
            else:
                self._early[key] = move
        while len(self._early) > MAX_QUEUED:
            del self._early[next(iter(self._early))]
        self._open[move.identifier] = move
        if len(self._open) > MAX_OPEN:
            self._open.pop(next(iter(self._open))).release()
            self._forgot("transfers", 1)

    def done(self, identifier: int, t_ns: int, device_ns: int | None, *, finished: bool) -> Move | None:
        """The transfer ended; None if its start was not seen. It stays known for what the content witness says."""
        move = self._open.pop(identifier, None)
        if move is None:
            return None
        move.finished = finished
        move.done_ns = t_ns
        move.device_ns = device_ns
        self._remember(move)
        return move

    def find(self, identifier: int) -> Move | None:
        """An open or recently finished transfer."""
        return self._open.get(identifier) or self._recent.get(identifier)

    def reset(self) -> list[Move]:
        """The engine dropped its queues. Returns the transfers that nobody will tell of any more."""
        for operation in self._queued.values():
            operation.story = None
        self._queued.clear()
        self._early.clear()
        dropped = list(self._open.values())
        self._open.clear()
        for move in dropped:
            self._remember(move)
        return dropped

    def _remember(self, move: Move) -> None:
        self._recent[move.identifier] = move
        if len(self._recent) > MAX_RECENT:
            self._recent.popitem(last=False)[1].release()
