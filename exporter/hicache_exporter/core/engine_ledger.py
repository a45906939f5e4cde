"""All ranks of one engine: which of them speak for it, and when a request's story is ripe for a judgement.

The rings of the ranks are read in any order, so what one rank tells waits here for what its siblings tell.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from hicache_exporter.core.bus_evidence import RankClaim, claim_of
from hicache_exporter.core.identity import Identity
from hicache_exporter.core.rank_ledger import RankLedger, RingClock
from hicache_exporter.core.story import Story
from hicache_exporter.core.testimony import Witnessed, evidence_of, expects_content, transfers_of
from hicache_exporter.core.totals import Totals
from hicache_proof.evidence import Evidence

PROVISIONAL_NS = 2_000_000_000
"""After its admission a request is judged on what there is, even if more is to come."""
FINAL_NS = 10_000_000_000
"""After this its verdict is final and counted: an old idle engine may never tell that a transfer ended."""
MAX_PENDING = 8192
MAX_CLOCK_STEPS = 64


@dataclass(frozen=True, slots=True)
class Case:
    """A request whose evidence may be judged now.

    ``final``: count the verdict, once. ``claims``: by rank, the bytes that it says it moved for the request.
    """

    witnessed: Witnessed
    evidence: Evidence
    final: bool
    claims: dict[str, RankClaim]


class EngineLedger:
    """One engine under one label, over restarts of its processes."""

    def __init__(self, label: str, counting_from_ns: int) -> None:
        self.label = label
        self.counting_from_ns = counting_from_ns
        self.ranks: dict[str, RankLedger] = {}
        """By the name of the ring."""
        self.totals: dict[str, Totals] = {}
        """By rank; kept when a process ends, so that its successor goes on counting there."""
        self.leading: set[str] = set()
        """Ranks whose logical facts count for the engine."""
        self.identity: Identity | None = None
        """As its latest process told it; None: no recorder ever has."""
        self.clock_steps: list[int] = []
        self._pending: dict[Story, RankLedger] = {}
        self._provisional: set[Story] = set()

    # -- rings -------------------------------------------------------------------------------------------------

    def open(self, ring: str, identity: Identity, clock: RingClock) -> RankLedger:
        totals = self.totals.setdefault(identity.rank, Totals())
        if identity.leads:
            self.leading.add(identity.rank)
        self.identity = identity
        ledger = self.ranks[ring] = RankLedger(identity, totals, clock, self.counting_from_ns)
        return ledger

    def close(self, ring: str) -> None:
        """The ring's file is gone: forget what it told, not what was counted."""
        ledger = self.ranks.pop(ring)
        for story in [story for story, owner in self._pending.items() if owner is ledger]:
            self._drop(story)

    def live(self) -> list[RankLedger]:
        return [ledger for ledger in self.ranks.values() if not ledger.ended]

    def clock_stepped(self, t_ns: int) -> None:
        self.clock_steps = [*self.clock_steps, t_ns][-MAX_CLOCK_STEPS:]

    # -- requests ----------------------------------------------------------------------------------------------

    def find(self, request_id: str) -> Witnessed | None:
        """The request as its leading rank told it; the latest process first."""
        for ledger in reversed(self.ranks.values()):
            if ledger.identity.leads:
                story = ledger.find(request_id)
                if story is not None:
                    return Witnessed(ledger, story)
        return None

    def due(self, now_ns: int) -> list[Case]:
        """The requests to be judged (again) now: those with news that are ripe, and those that waited long enough."""
        ripe: dict[Story, Case] = {}
        news = {story: ledger for ledger, story in self._news()}  # a story once, whoever told more about it
        for story, ledger in news.items():
            if story.settled or self._is_told(ledger, story):
                ripe[story] = self._case(ledger, story, final=not story.settled)
            else:
                self._pending[story] = ledger
        for story, ledger in list(self._pending.items()):
            if story in ripe:
                continue
            waited = now_ns - (story.admitted_ns or now_ns)
            final = story.closed or waited >= FINAL_NS or len(self._pending) > MAX_PENDING
            if final or (waited >= PROVISIONAL_NS and story not in self._provisional):
                ripe[story] = self._case(ledger, story, final=final)
        if self.ranks and not self.live() and not self._pending:
            for ledger in self.ranks.values():
                ledger.release()
        return list(ripe.values())

    def _news(self) -> Iterator[tuple[RankLedger, Story]]:
        """Stories of leading ranks that they or their siblings have told more about."""
        for ledger in self.ranks.values():
            for story in ledger.news():
                if ledger.identity.leads:
                    yield ledger, story
                    continue
                for leader in self._group(ledger):
                    told = leader.stories.get(story.rid)
                    if leader.identity.leads and told is not None and told.admit is not None:
                        yield leader, told

    def _case(self, ledger: RankLedger, story: Story, *, final: bool) -> Case:
        group = self._group(ledger)
        told = {other: _whole(other, story.rid) for other in group}
        if final:
            story.settled = True
            for same in (other.stories.get(story.rid) for other in group):
                if same is not None:
                    same.settled = True
            self._drop(story)
        else:
            self._provisional.add(story)
        witnessed = Witnessed(ledger, story)
        siblings = {other.identity.rank: same for other, same in told.items()}
        evidence = evidence_of(self.label, witnessed, siblings, self.clock_steps)
        claims = {other.identity.rank: _claim(other, same) for other, same in {ledger: story, **told}.items()}
        return Case(witnessed, evidence, final, claims)

    def _drop(self, story: Story) -> None:
        self._pending.pop(story, None)
        self._provisional.discard(story)

    def _is_told(self, ledger: RankLedger, story: Story) -> bool:
        """All that matters was told, by this rank and by every live sibling."""
        if not _told(ledger, story):
            return story.closed
        for other in self._group(ledger):
            same = other.stories.get(story.rid)
            if not other.ended and (same is None or not _told(other, same)):
                return False
        return True

    def _group(self, ledger: RankLedger) -> list[RankLedger]:
        """The other ranks of the same tensor- and pipeline-parallel group, of the same life of the engine."""
        own = ledger.identity
        return [
            other
            for other in self.ranks.values()
            if other is not ledger
            and other.ended == ledger.ended
            and other.identity.dp_rank == own.dp_rank
            and other.identity.rank != own.rank
        ]


def _whole(ledger: RankLedger, rid: bytes) -> Story | None:
    """What a rank told of a request; None where records of it are lost or loads go unseen."""
    story = ledger.stories.get(rid)
    if story is None or not ledger.watching_loads or ledger.lost_between(story.first_seq, story.last_seq):
        return None
    return story


def _claim(ledger: RankLedger, story: Story | None) -> RankClaim:
    return RankClaim(ledger.identity, None if story is None else claim_of(transfers_of(ledger, story)))


def _told(ledger: RankLedger, story: Story) -> bool:
    return story.told(content_expected=expects_content(ledger))
