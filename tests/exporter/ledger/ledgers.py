"""A rank's ledger fed by a scribe, without a file between them."""

from __future__ import annotations

from hicache_exporter.core.decoding import decode
from hicache_exporter.core.identity import parse_identity
from hicache_exporter.core.rank_ledger import RankLedger, RingClock
from hicache_exporter.core.testimony import Witnessed, evidence_of
from hicache_exporter.core.totals import Totals
from hicache_proof.evidence import Evidence

from ..scribe import IDENTITY, SEAMS, Scribe

CLOCK = RingClock(0, 1_700_000_000_000_000_000)
ALL_ATTACHED = dict.fromkeys(SEAMS, "attached")


def new_ledger(totals: Totals | None = None, counting_from_ns: int = 0, **identity: object) -> RankLedger:
    known = parse_identity({**IDENTITY, **identity})
    assert known is not None
    ledger = RankLedger(known, Totals() if totals is None else totals, CLOCK, counting_from_ns)
    ledger.see_seams(ALL_ATTACHED)
    return ledger


def tell(ledger: RankLedger, scribe: Scribe) -> None:
    """What the scribe wrote since the last time, undamaged."""
    first = scribe.next_seq - sum(len(piece) // 128 for piece in scribe.pieces)
    found = decode(b"".join(scribe.pieces), first, overwritable=0, complete=True)
    scribe.pieces.clear()
    ledger.tell(found.rows, found.extras, found.losses)


def evidence(ledger: RankLedger, request_id: str, clock_steps: tuple[int, ...] = ()) -> Evidence:
    story = ledger.find(request_id)
    assert story is not None
    return evidence_of("127.0.0.1:30000", Witnessed(ledger, story), {}, clock_steps)
