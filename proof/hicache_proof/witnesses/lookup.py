"""The tree's promise: how much of the prompt the last lookup found in L2. A promise is not a load."""

from __future__ import annotations

from hicache_proof.evidence import Evidence
from hicache_proof.witnesses.state import WitnessState, absent, contradicts, silent, supports

NAME = "lookup"


def testify(evidence: Evidence) -> WitnessState:
    lookup = evidence.lookup
    if lookup is None:
        return absent(NAME, "no lookup of this request was recorded")
    found = f"matched {lookup.device_tokens} tokens in L1 and {lookup.host_tokens} in L2 of {lookup.prompt_tokens}"
    if lookup.host_tokens > 0:
        return supports(NAME, found)
    if retried(evidence):
        return silent(NAME, f"{found}; an earlier lookup had promised something else (admission was retried)")
    return contradicts(NAME, found)


def retried(evidence: Evidence) -> bool:
    """The promise changed before admission, so the last lookup may have met blocks that this request had loaded."""
    return evidence.recorder.lookups > 1
