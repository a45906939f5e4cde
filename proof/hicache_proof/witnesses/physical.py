"""Bytes that crossed the PCIe bus while the transfer ran. From outside the engine; corroborates, never replaces.

Measured overhead on an H200: 1.08 times the payload for large copies, 1.16 to 1.19 for the engine's load kernel.
Fewer bytes than claimed can't be explained away; more may be someone else's.
"""

from __future__ import annotations

from typing import NamedTuple

from hicache_proof.evidence import Evidence, Physical
from hicache_proof.witnesses.state import WitnessState, absent, contradicts, silent, supports

NAME = "physical"
LEAST_RATIO = 0.98
MOST_RATIO = 1.35


class _Measured(NamedTuple):
    """Bytes of the window, and what the bus carries anyway in such a time."""

    bus: int
    baseline: int


def testify(evidence: Evidence) -> WitnessState:
    physical = evidence.physical
    if physical is None:
        return absent(NAME, "no byte counters of the bus")
    moved = _measured(physical)
    if moved is None:
        return silent(NAME, f"not usable here: {physical.why_not or 'the collector gave no reason'}")
    why_not = _why_not(evidence, physical.claimed_bytes, moved)
    if why_not is not None:
        return silent(NAME, f"not usable here: {why_not}")
    crossed = moved.bus - moved.baseline
    ratio = crossed / physical.claimed_bytes
    says = f"{crossed} bytes crossed the bus for {physical.claimed_bytes} claimed (ratio {ratio:.2f})"
    if ratio < LEAST_RATIO:
        return contradicts(NAME, says)
    if ratio > MOST_RATIO:
        return silent(NAME, f"{says}; more than the claim explains, so other traffic shared the bus")
    return supports(NAME, says)


def _measured(physical: Physical) -> _Measured | None:
    """None: the window can't be used, or a number of it is missing."""
    if not physical.usable or physical.bus_bytes is None or physical.baseline_bytes is None:
        return None
    return _Measured(physical.bus_bytes, physical.baseline_bytes)


def _why_not(evidence: Evidence, claimed: int, moved: _Measured) -> str | None:
    if evidence.recorder.clock_stepped:
        return "a clock was stepped, the window can't be placed"
    if moved.bus <= 0:
        return "the bus counter stood still, so this board does not count"
    if claimed <= max(moved.baseline, 0):
        return f"{claimed} bytes claimed don't stand out from {moved.baseline} of baseline"
    return None
