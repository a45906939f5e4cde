"""Signatures of the rows loaded against those of the rows backed up. Speaks about content, not about the tier."""

from __future__ import annotations

from hicache_proof.amounts import read
from hicache_proof.evidence import Content, Evidence
from hicache_proof.witnesses.state import WitnessState, absent, silent, supports

NAME = "content"


def testify(evidence: Evidence) -> WitnessState:
    content = evidence.content
    if content is None:
        return absent(NAME, "rows were not checked")
    says = (
        f"{content.checked - content.mismatched} of {content.checked} checked rows equal ({content.mode}, "
        f"{content.layers} layers)"
    )
    if content.mismatched > 0:
        return silent(NAME, f"{says}: {content.mismatched} damaged")
    if content.unseen > 0:
        return silent(NAME, f"{says}; {content.unseen} loaded rows had no signature from their backup")
    if not complete(evidence, content):
        return silent(NAME, f"{says}; that is not the whole read")
    return supports(NAME, says)


def complete(evidence: Evidence, content: Content) -> bool:
    """Every slot of the read was compared with its signature, and none differed."""
    size = read(evidence) or 0
    return content.mismatched == 0 and content.unseen == 0 and content.checked >= size > 0
