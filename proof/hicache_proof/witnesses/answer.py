"""Lab only: the answer after the L2 read against the answer of the L1 run of the same prompt."""

from __future__ import annotations

from hicache_proof.evidence import Answer, Evidence
from hicache_proof.witnesses.state import WitnessState, absent, silent, supports

NAME = "answer"
TOO_WIDE = 1.0
"""A tolerance above it lets damage through (damaged rows differ by over 1 on a small model): no witness then."""


def testify(evidence: Evidence) -> WitnessState:
    answer = evidence.answer
    if answer is None:
        return absent(NAME, "not compared (lab only)")
    says = f"log-probabilities differ by {answer.max_logprob_delta:.2g} at most, tolerance {answer.tolerance:.2g}"
    if answer.markers_planted:
        says += f"; {answer.markers_recalled} of {answer.markers_planted} markers recalled"
    if failed(answer):
        return silent(NAME, f"{says}: not the L1 answer")
    if answer.tolerance > TOO_WIDE and not answer.markers_planted:
        return silent(NAME, f"{says}: so wide that damage would pass")
    return supports(NAME, says)


def failed(answer: Answer) -> bool:
    """Outside the tolerance or a marker lost. Other text alone is no fault: numerics do that on an L1 hit too."""
    in_tolerance = answer.max_logprob_delta <= answer.tolerance  # false for NaN
    return not in_tolerance or answer.markers_recalled < answer.markers_planted
