"""Where the blocks had been before: backed up to L2, gone from L1, and not back since."""

from __future__ import annotations

from hicache_proof.amounts import from_storage, read, slack
from hicache_proof.evidence import Evidence, Residency
from hicache_proof.witnesses.state import WitnessState, absent, contradicts, silent, supports

NAME = "residency"


def testify(evidence: Evidence) -> WitnessState:
    residency = evidence.residency
    if residency is None:
        return absent(NAME, "the ledger knows no earlier residence of these blocks")
    if never_left(residency):
        return contradicts(NAME, "the blocks were backed up but never seen leaving L1")
    doubt = _doubt(residency, _needed(evidence))
    says = f"{residency.backed_up_tokens} tokens backed up, {_left(residency)}"
    if doubt is not None:
        return silent(NAME, f"{says}; {doubt}")
    return supports(NAME, f"{says}, not loaded back since")


def never_left(residency: Residency) -> bool:
    """Evictions were watched and none concerned these blocks: L1 must still have held them."""
    watched = residency.left_device_tokens == 0 and residency.node_seen_leaving is False
    return watched and residency.backed_up_tokens > 0 and not residency.returned_since


def _needed(evidence: Evidence) -> int:
    """Tokens whose earlier residence matters: those read that did not come from L3."""
    storage = from_storage(evidence) or 0
    return max((read(evidence) or 0) - storage - (slack(evidence) if storage else 0), 1)


def _doubt(residency: Residency, needed: int) -> str | None:
    if residency.unfinished_backup_tokens:
        return f"the backup of {residency.unfinished_backup_tokens} more tokens was never seen finished"
    if residency.backed_up_tokens < needed:
        return f"{needed} were read: the rest was written by nothing the recorder saw"
    if residency.returned_since:
        return "they had been loaded back after they last left, so L1 may still have held them"
    if residency.node_seen_leaving is None and residency.left_device_tokens is None:
        return "evictions from L1 are not observable here"
    if not residency.node_seen_leaving:
        return "which blocks left is not known"
    return None


def _left(residency: Residency) -> str:
    if residency.node_seen_leaving:
        return "then seen leaving L1"
    if residency.left_device_tokens is None:
        return "leaving L1 not observed"
    return f"{residency.left_device_tokens} tokens left L1 afterwards"
