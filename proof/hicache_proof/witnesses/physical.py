"""Bytes that crossed the PCIe bus while the transfer ran. From outside the engine; corroborates, never replaces.

Measured overhead on an H200: 1.08 times the payload for large copies, 1.16 to 1.19 for the engine's load kernel.
Fewer bytes than claimed can't be explained away; more may be someone else's.
"""

from __future__ import annotations

from hicache_proof.evidence import Evidence, Physical
from hicache_proof.witnesses.state import WitnessState, absent, contradicts, silent, supports

NAME = "physical"
LEAST_RATIO = 0.98
MOST_RATIO = 1.35


def testify(evidence: Evidence) -> WitnessState:
    physical = evidence.physical
    if physical is None:
        return absent(NAME, "no byte counters of the bus")
    why_not = _why_not(evidence, physical)
    if why_not is not None:
        return silent(NAME, f"not usable here: {why_not}")
    crossed = physical.bus_bytes - physical.baseline_bytes
    ratio = crossed / physical.claimed_bytes
    says = f"{crossed} bytes crossed the bus for {physical.claimed_bytes} claimed (ratio {ratio:.2f})"
    if ratio < LEAST_RATIO:
        return contradicts(NAME, says)
    if ratio > MOST_RATIO:
        return silent(NAME, f"{says}; more than the claim explains, so other traffic shared the bus")
    return supports(NAME, says)


def _why_not(evidence: Evidence, physical: Physical) -> str | None:
    if not physical.usable:
        return physical.why_not or "the collector gave no reason"
    if evidence.recorder.clock_stepped:
        return "a clock was stepped, the window can't be placed"
    if physical.bus_bytes <= 0:
        return "the bus counter stood still, so this board does not count"
    if physical.claimed_bytes <= max(physical.baseline_bytes, 0):
        return f"{physical.claimed_bytes} bytes claimed don't stand out from {physical.baseline_bytes} of baseline"
    return None
