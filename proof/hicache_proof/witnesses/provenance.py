"""Whose backup wrote the host slots that were read. Slots are the stable identity: nodes split."""

from __future__ import annotations

from hicache_proof.amounts import counted_transfers, from_storage, moved, slack
from hicache_proof.evidence import Evidence, Provenance
from hicache_proof.witnesses.state import WitnessState, absent, silent, supports

NAME = "provenance"


def testify(evidence: Evidence) -> WitnessState:
    provenance = evidence.provenance
    if provenance is None:
        return absent(NAME, "the slots read are not known")
    says = f"{provenance.slots_known} of {provenance.slots_read} host slots read were written by {_writers(provenance)}"
    doubt = _doubt(evidence, provenance)
    return supports(NAME, says) if doubt is None else silent(NAME, f"{says}; {doubt}")


def _doubt(evidence: Evidence, provenance: Provenance) -> str | None:
    storage = from_storage(evidence) or 0
    unknown = provenance.slots_read - provenance.slots_known
    if provenance.slots_known == 0:
        return "no known backup wrote any of them (L3 prefetch, or before the recorder)"
    if provenance.slots_read < (moved(evidence) or 0):
        return "not all slots of the read were recorded"
    if unknown > (storage + slack(evidence) if storage else 0):
        return f"{unknown} were written by no backup that was seen (L3 prefetch, or before the recorder)"
    if _written_late(evidence, provenance):
        return "a backup of them ended after the read had been queued"
    return None


def _written_late(evidence: Evidence, provenance: Provenance) -> bool:
    queued = [t.submitted_ns for t in counted_transfers(evidence) or ()]
    return bool(queued) and any(writer.written_at_ns > max(queued) for writer in provenance.writers)


def _writers(provenance: Provenance) -> str:
    named = sorted({writer.request_id for writer in provenance.writers if writer.request_id is not None})
    if not named:
        return "backups that the recorder saw"
    more = f" and {len(named) - 3} more" if len(named) > 3 else ""
    return f"the backup of request {', '.join(named[:3])}{more}"
