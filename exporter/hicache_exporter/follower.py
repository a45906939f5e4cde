"""Follows all rings of the folder into the ledgers of their engines, a bounded piece at a time."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from hicache_exporter.core.engine_ledger import EngineLedger
from hicache_exporter.core.identity import Identity, parse_identity
from hicache_exporter.core.rank_ledger import RankLedger, RingClock
from hicache_exporter.sources import process
from hicache_exporter.sources.ring import Ring, SeamRow
from hicache_exporter.sources.ring_file import RingRefusedError
from hicache_exporter.sources.ring_folder import RingFolder

SCAN_NS = 1_000_000_000
LOOK_NS = 100_000_000  # between two looks at a process and its seams
FOREIGN_NS = 30_000_000_000  # a process that can't be seen from here lives as long as its ring moves
STEP_NS = 100_000_000  # a wall clock that moves so far against the monotonic one was stepped
MAX_ENGINES = 256

Assign = Callable[[Identity], str | None]
"""The label of the engine that a ring belongs to; None: an engine that this sidecar does not watch."""
Lives = Callable[[int, int], bool]
"""Whether the process ``pid`` that made a ring at that time (CLOCK_MONOTONIC) still lives."""


@dataclass(slots=True)
class Followed:
    """A ring and where it is written to."""

    ring: Ring
    engine: EngineLedger
    ledger: RankLedger
    alive: bool = True
    fill: float = 0.0
    behind: int = 0
    seams: list[SeamRow] = field(default_factory=list)
    looked_ns: int = -LOOK_NS
    moved_ns: int = -FOREIGN_NS
    """When it last had news, other than those that were there already when this reader came."""
    caught_up: bool = False
    seen_process: bool = False


class Follower:
    """``engines`` has a ledger for each label that a ring was ever found for, or that was asked for by name."""

    def __init__(
        self, folder: RingFolder, assign: Assign, counting_from_ns: int, lives: Lives = process.is_alive
    ) -> None:
        self.folder = folder
        self.engines: dict[str, EngineLedger] = {}
        self.followed: dict[str, Followed] = {}
        self.waiting = 0
        self.other_engine = 0
        self.moved_ns = 0
        """When a ring last had news."""
        self.rounds = 0
        self._assign = assign
        self._lives = lives
        self._counting_from_ns = counting_from_ns
        self._scanned_ns = -SCAN_NS
        self._offset: int | None = None

    def engine(self, label: str) -> EngineLedger:
        return self.engines.setdefault(label, EngineLedger(label, self._counting_from_ns))

    def steps(self, now_ns: int) -> Iterator[None]:
        """One round over all rings, a piece of each a step, so that others get their turn in between."""
        self._watch_the_clock(now_ns)
        if now_ns - self._scanned_ns >= SCAN_NS or self.folder.changed():
            self._scanned_ns = now_ns
            self._scan()
        waiting = other = 0
        for name, ring in list(self.folder.rings.items()):
            if self.folder.rings.get(name) is not ring:
                continue  # gone since: somebody else looked in between
            followed = self.followed.get(name)
            if followed is None:
                identity = self._identity(name, ring)
                label = self._assign(identity) if identity is not None else None
                waiting += identity is None
                other += identity is not None and label is None
                if identity is None or label is None or not self._room_for(label):
                    continue
                followed = self._follow(name, ring, label, identity)
            if not followed.ledger.ended or self._moves_again(name, followed, now_ns):
                self._read(name, followed, now_ns)
                yield
        self.waiting, self.other_engine = waiting, other
        self.rounds += 1

    @property
    def behind(self) -> bool:
        """There is more to read than the last round took."""
        return any(found.behind for found in self.followed.values())

    def live_ranks(self, label: str) -> list[Followed]:
        return [found for found in self.followed.values() if found.engine.label == label and not found.ledger.ended]

    def _scan(self) -> None:
        self.folder.scan()
        for name in [name for name in self.followed if name not in self.folder.rings]:
            if name not in self.folder.refused:
                self.followed.pop(name).engine.close(name)

    def _identity(self, name: str, ring: Ring) -> Identity | None:
        try:
            ring.refresh()
        except RingRefusedError as reason:
            self.folder.drop(name, reason)
        return parse_identity(ring.identity)

    def _room_for(self, label: str) -> bool:
        return label in self.engines or len(self.engines) < MAX_ENGINES

    def _follow(self, name: str, ring: Ring, label: str, identity: Identity) -> Followed:
        engine = self.engine(label)
        clock = RingClock(ring.header.created_ns, ring.header.created_wall_ns)
        followed = Followed(ring, engine, engine.open(name, identity, clock))
        self.followed[name] = followed
        return followed

    def _read(self, name: str, followed: Followed, now_ns: int) -> None:
        try:
            if now_ns - followed.looked_ns >= LOOK_NS:
                self._look(followed, now_ns)
            found = followed.ring.read()
        except RingRefusedError as reason:
            self.folder.drop(name, reason)
            followed.alive = False
            followed.behind = 0
            followed.ledger.end()
            return
        followed.fill, followed.behind = found.fill, found.behind
        if found.rows or found.losses:
            if followed.caught_up:
                followed.moved_ns = self.moved_ns = now_ns
            followed.ledger.tell(found.rows, found.extras, found.losses)
        followed.caught_up = followed.caught_up or not found.behind
        if not followed.alive and not found.behind:
            followed.ledger.end()

    def _moves_again(self, name: str, followed: Followed, now_ns: int) -> bool:
        """A ring taken for dead because its process can't be seen from here (another pid namespace) has news."""
        if followed.seen_process or followed.ring.closed_ns or name not in self.folder.rings:
            return False
        try:
            followed.ring.refresh()
        except RingRefusedError as reason:
            self.folder.drop(name, reason)
            return False
        if followed.ring.head < followed.ring.cursor:
            return False
        followed.ledger.ended = False
        followed.moved_ns = now_ns
        return True

    def _look(self, followed: Followed, now_ns: int) -> None:
        """Is the process alive, and what do its seams say? Looked at before reading: a dead one writes no more."""
        followed.looked_ns = now_ns
        header = followed.ring.header
        if self._lives(header.pid, header.created_ns):
            followed.alive = followed.seen_process = True
        else:
            unseen = not followed.seen_process and not followed.ring.closed_ns
            followed.alive = unseen and now_ns - followed.moved_ns < FOREIGN_NS
        seams = followed.ring.seams()
        if seams is not followed.seams:
            followed.seams = seams
            followed.ledger.see_seams({seam.name: seam.state for seam in seams})

    def _watch_the_clock(self, now_ns: int) -> None:
        before = time.monotonic_ns()
        wall = time.time_ns()
        if time.monotonic_ns() - before > STEP_NS // 100:
            return  # interrupted in between: no good sample
        offset = wall - before
        if self._offset is not None and abs(offset - self._offset) > STEP_NS:
            for engine in self.engines.values():
                engine.clock_stepped(now_ns)
        self._offset = offset
