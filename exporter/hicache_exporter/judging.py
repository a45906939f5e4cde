"""From a ripe case to a judged, counted and kept proof."""

from __future__ import annotations

import logging
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

from hicache_exporter import names
from hicache_exporter.core.engine_ledger import Case
from hicache_exporter.core.rank_ledger import RankLedger
from hicache_exporter.core.story import Story
from hicache_proof.evidence import Evidence
from hicache_proof.verdict import Judgement

log = logging.getLogger(__name__)

KEPT = 512

Enrich = Callable[[Case, Evidence], Evidence]
"""Adds what a witness outside the recorder saw."""


@dataclass(frozen=True, slots=True)
class Proof:
    """A request's evidence and the judgement on it. Not ``final``: more may be told."""

    evidence: Evidence
    judgement: Judgement
    ledger: RankLedger
    story: Story
    final: bool

    @property
    def at(self) -> float:
        """When the request was admitted, seconds since the epoch."""
        return self.ledger.clock.wall(self.story.admitted_ns or 0)


@dataclass(slots=True)
class VerdictCounts:
    """Of one engine, since the sidecar began to count."""

    verdicts: dict[str, int] = field(default_factory=lambda: dict.fromkeys(names.VERDICTS, 0))
    content: dict[str, int] = field(default_factory=lambda: dict.fromkeys(names.CONTENT_STATES, 0))


class Judging:
    """Keeps the most recent proofs; counts every verdict once, when it is final."""

    def __init__(
        self, judge: Callable[[Evidence], Judgement], counting_from_ns: int, enrich: Iterable[Enrich] = ()
    ) -> None:
        """A verdict on a request from before ``counting_from_ns`` is kept and not counted."""
        self.counts: dict[str, VerdictCounts] = {}
        self._judge = judge
        self._counting_from_ns = counting_from_ns
        self._enrich = tuple(enrich)
        self._proofs: OrderedDict[tuple[str, str], Proof] = OrderedDict()
        self._failures = 0

    def hear(self, case: Case) -> Proof | None:
        """Judge one case. None if that failed: a fault of ours costs this proof and nothing else."""
        try:
            evidence = case.evidence
            for add in self._enrich:
                evidence = add(case, evidence)
            judgement = self._judge(evidence)
        except Exception:
            self._failures += 1
            if self._failures == 1:
                log.exception("request %s could not be judged", case.evidence.request_id)
            return None
        proof = Proof(evidence, judgement, case.witnessed.ledger, case.witnessed.story, case.witnessed.story.settled)
        self._keep(proof)
        if case.final and (proof.story.admitted_ns or 0) >= self._counting_from_ns:
            self._count(proof)
        return proof

    def of(self, request_id: str) -> Proof | None:
        """The latest proof on a request id, of whatever engine."""
        return next((proof for proof in self.recent() if proof.evidence.request_id == request_id), None)

    def recent(self) -> Iterator[Proof]:
        """Newest first."""
        return reversed(self._proofs.values())

    def counts_of(self, engine: str) -> VerdictCounts:
        return self.counts.setdefault(engine, VerdictCounts())

    def _keep(self, proof: Proof) -> None:
        key = (proof.evidence.engine, proof.evidence.request_id)
        known = self._proofs.get(key)
        self._proofs[key] = proof
        if known is None or known.story is not proof.story:
            self._proofs.move_to_end(key)
        if len(self._proofs) > KEPT:
            self._proofs.popitem(last=False)

    def _count(self, proof: Proof) -> None:
        counts = self.counts_of(proof.evidence.engine)
        counts.verdicts[proof.judgement.verdict] += 1
        if proof.evidence.transfers:
            counts.content[proof.judgement.content] += 1
