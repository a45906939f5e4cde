"""Which backup filled which host slot, and what has left the device since: told by events, never by the tree.

Host slots are the stable identity. Node ids are not: a node that splits leaves its front part under a new id.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from operator import attrgetter
from typing import NamedTuple

from hicache_exporter.core.intervals import IntervalMap
from hicache_exporter.core.operations import Operation
from hicache_tracing.records import EvictCause

MAX_INTERVALS = 1 << 18
MAX_NODES = 1 << 16

_DEMOTED = EvictCause.DEMOTED  # bound once: looking up an enum's member takes 0.1 us

_demoted_before, _since_ns = attrgetter("demoted_before"), attrgetter("since_ns")

Run = tuple[int, int]
"""(first host slot, count)"""


class Departure(NamedTuple):
    """A node that was seen leaving the device with its host copy kept."""

    t_ns: int
    tokens: int
    seq: int


class Copy:
    """One stretch of blocks in the host: who wrote it, and since when the device may hold it no longer."""

    __slots__ = ("backup", "demoted_before", "left", "returned", "since_ns")

    def __init__(
        self,
        backup: Operation,
        since_ns: int,
        demoted_before: int,
        *,
        returned: bool,
        left: tuple[int, Departure] | None = None,
    ) -> None:
        self.backup = backup
        self.since_ns = since_ns
        """The blocks were on the device at this time: they were backed up from it, or loaded back to it."""
        self.demoted_before = demoted_before
        """Tokens seen leaving the device up to then, over all nodes whose slots are not known."""
        self.returned = returned
        self.left = left
        """Node, and how it left the device: these very blocks, told by their host slots."""


class Share(NamedTuple):
    """The part of a read that one backup wrote."""

    backup: Operation
    tokens: int


class SlotsRead(NamedTuple):
    """What was known about the host slots of one load when it was queued."""

    slots: int
    shares: tuple[Share, ...]
    unfinished_tokens: int
    left_tokens: int
    """Of the tokens read: as many as were seen leaving the device since they were last there."""
    node_left: bool
    returned: bool
    departures: tuple[tuple[int, Departure], ...]
    """(node id, departure) of the nodes concerned."""

    @property
    def known(self) -> int:
        return sum(share.tokens for share in self.shares)

    @property
    def left_at_ns(self) -> int | None:
        return max((departure.t_ns for _, departure in self.departures), default=None)


class Residency:
    """The host tier of one rank. All maps are bounded."""

    def __init__(
        self,
        forgot: Callable[[str, int], None] = lambda what, count: None,
        overwritten: Callable[[Operation, int], None] = lambda backup, now_ns: None,
    ) -> None:
        """``forgot(what, count)`` is told of what had to go, ``overwritten(backup, now_ns)`` when the last slot that a
        backup filled is filled anew.
        """
        self.demoted_tokens = 0
        self._forgot = forgot
        self._copies: IntervalMap[Copy] = IntervalMap()
        self._departures: dict[int, Departure] = {}
        self._overwritten = overwritten

    def backed_up(self, backup: Operation, runs: Iterable[Run]) -> None:
        """A backup was queued that fills these host slots."""
        copy = Copy(backup, backup.t_ns, self.demoted_tokens, returned=False)
        for first, count in runs:
            if count > 0:
                backup.live_slots += count
                for start, end, replaced in self._copies.assign(first, first + count, copy):
                    self._release(replaced.backup, end - start, backup.t_ns)
        if len(self._copies) > MAX_INTERVALS:
            self.forget_slots()

    def filled_from_storage(self, runs: Iterable[Run], t_ns: int) -> None:
        """L3 pages came into these host slots: no backup wrote what they hold now."""
        for first, count in runs:
            for start, end, replaced in self._copies.cut(first, first + count):
                self._release(replaced.backup, end - start, t_ns)

    def forget_slots(self) -> None:
        """Some slots were filled, and which is not known: nothing may be concluded from what was known of any."""
        self._forgot("slots", sum(end - start for start, end, _ in self._copies))
        self._copies.clear()

    def left_device(
        self, node: int, cause: int, tokens: int, t_ns: int, seq: int, kept: Iterable[Run] | None = None
    ) -> None:
        """A node's tokens left the device. Only those whose host copy stays can come back from there.

        ``kept``: the host slots that keep it, where the engine tells them (None: it does not). Then these very blocks
        are known to have left; else only that some of the node's did.
        """
        if cause != _DEMOTED:
            return
        if kept is not None:
            self._left_exactly((node, Departure(t_ns, tokens, seq)), kept)
            return
        self.demoted_tokens += tokens
        self._departures.pop(node, None)
        self._departures[node] = Departure(t_ns, tokens, seq)
        if len(self._departures) > MAX_NODES:
            del self._departures[next(iter(self._departures))]
            self._forgot("nodes", 1)

    def _left_exactly(self, how: tuple[int, Departure], kept: Iterable[Run]) -> None:
        gone: dict[Copy, Copy] = {}

        def left(_count: int, copy: Copy) -> Copy:
            known = gone.get(copy)
            if known is None:
                known = gone[copy] = Copy(
                    copy.backup, copy.since_ns, copy.demoted_before, returned=copy.returned, left=how
                )
            return known

        for first, count in kept:
            self._copies.change(first, first + count, left)

    def loaded(self, load: Operation, runs: Iterable[Run]) -> SlotsRead:
        """A load was queued that reads these host slots; from now on the device has the blocks again."""
        tokens: dict[Copy, int] = {}
        back: dict[Operation, Copy] = {}

        def returned(count: int, copy: Copy) -> Copy:
            tokens[copy] = tokens.get(copy, 0) + count
            fresh = back.get(copy.backup)
            if fresh is None:
                fresh = back[copy.backup] = Copy(copy.backup, load.t_ns, self.demoted_tokens, returned=True)
            return fresh

        slots = 0
        for first, count in runs:
            slots += count
            self._copies.change(first, first + count, returned)
        return self._describe(load, slots, tokens)

    def reset(self) -> None:
        """The cache was flushed: nothing that was known holds any more."""
        self._copies.clear()
        self._departures.clear()

    def _describe(self, load: Operation, slots: int, tokens: dict[Copy, int]) -> SlotsRead:
        by_backup: dict[Operation, int] = {}
        departures: dict[int, Departure] = {}
        left = exactly = unfinished = 0
        whole, returned = bool(tokens), False
        # the latest first: what left since then can't also account for those that were there before
        copies = sorted(tokens, key=_demoted_before, reverse=True) if len(tokens) > 1 else tokens
        for copy in copies:
            backup, count = copy.backup, tokens[copy]
            by_backup[backup] = by_backup.get(backup, 0) + count
            unfinished += 0 if backup.finished else count
            if copy.left is not None:
                node, departed = copy.left
                departures[node] = departed
                exactly += count
                continue
            accounted = min(count, self.demoted_tokens - copy.demoted_before - left)
            left += accounted
            departure = self._departed(backup.node, copy.since_ns)
            gone = departure is not None and departure.tokens >= count
            if departure is not None:
                departures[backup.node] = departure
            whole = whole and gone
            returned = returned or (copy.returned and not gone and accounted < count)
        itself = self._departed(load.node, min(map(_since_ns, tokens))) if tokens else None
        if itself is not None:
            departures[load.node] = itself
        return SlotsRead(
            slots=slots,
            shares=tuple(map(Share._make, by_backup.items())),
            unfinished_tokens=unfinished,
            left_tokens=left + exactly,
            node_left=whole or itself is not None,
            returned=returned,
            departures=tuple(departures.items()),
        )

    def _departed(self, node: int, since_ns: int) -> Departure | None:
        departure = self._departures.get(node)
        return departure if departure is not None and departure.t_ns >= since_ns else None

    def _release(self, backup: Operation, slots: int, now_ns: int) -> None:
        backup.live_slots -= slots
        if backup.live_slots == 0:
            self._overwritten(backup, now_ns)
