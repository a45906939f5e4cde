"""Bytes that crossed the PCIe bus while the transfer ran. From outside the engine; corroborates, never replaces.

Measured overhead on an H200: 1.08 times the payload for large copies, 1.16 to 1.19 for the engine's load kernel.
Fewer bytes than claimed can't be explained away; more may be someone else's. Each rank's claim is held against the bus
of its own GPU: every rank can contradict, but only the bus of the rank whose evidence this is can support.
"""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from hicache_proof.evidence import Evidence, Physical
from hicache_proof.witnesses.state import WitnessState, absent, contradicts, silent, supports

NAME = "physical"
LEAST_RATIO = 0.98
MOST_RATIO = 1.35


class Crossing(NamedTuple):
    """A rank's claim, and the bytes that crossed its bus beyond what the bus carries anyway. None: not usable."""

    claimed: int
    crossed: int | None
    state: WitnessState

    @property
    def ratio(self) -> float | None:
        return None if self.crossed is None else self.crossed / self.claimed


class _Measured(NamedTuple):
    """Bytes of the window, and what the bus carries anyway in such a time."""

    bus: int
    baseline: int


def testify(evidence: Evidence) -> WitnessState:
    ranks = by_rank(evidence)
    short = _short(ranks)
    if short:
        return contradicts(NAME, "; ".join(short))
    (_, own), *siblings = ranks
    if own is None:
        return absent(NAME, "no byte counters of the bus")
    measured = [seen for _, seen in siblings if seen is not None]
    if not measured:
        return own.state
    every = all(seen.state.stance == "supports" for seen in (own, *measured)) and len(measured) == len(siblings)
    whose = "on every rank" if every else "sibling ranks"
    told = ", ".join(f"{rank} {_brief(seen)}" for rank, seen in siblings)
    return msgspec.structs.replace(own.state, says=f"{own.state.says}; {whose}: {told}")


def by_rank(evidence: Evidence) -> tuple[tuple[str, Crossing | None], ...]:
    """The rank of the evidence first, then its siblings. None: nobody measured that one."""
    facts = ((evidence.rank, evidence.physical), *((view.rank, view.physical) for view in evidence.ranks))
    return tuple((rank, None if seen is None else _crossing(evidence, seen)) for rank, seen in facts)


def missing(evidence: Evidence) -> tuple[str, ...]:
    """One sentence for each rank of which fewer bytes crossed the bus than it claims; a sibling is named."""
    return _short(by_rank(evidence))


def _short(ranks: tuple[tuple[str, Crossing | None], ...]) -> tuple[str, ...]:
    own, *siblings = ranks
    named = (("", own[1]), *((f"rank {rank}: ", seen) for rank, seen in siblings))
    return tuple(
        name + seen.state.says for name, seen in named if seen is not None and seen.state.stance == "contradicts"
    )


def _brief(seen: Crossing | None) -> str:
    if seen is None:
        return "not measured"
    return f"ratio {seen.ratio:.2f}" if seen.state.stance == "supports" else seen.state.says


def _crossing(evidence: Evidence, physical: Physical) -> Crossing:
    claimed, moved = physical.claimed_bytes, _measured(physical)
    if moved is None:
        why_not: str | None = physical.why_not or "the collector gave no reason"
    else:
        why_not = _why_not(evidence, claimed, moved)
    if moved is None or why_not is not None:
        return Crossing(claimed, None, silent(NAME, f"not usable here: {why_not}"))
    crossed = moved.bus - moved.baseline
    ratio = crossed / claimed
    says = f"{crossed} bytes crossed the bus for {claimed} claimed (ratio {ratio:.2f})"
    if ratio < LEAST_RATIO:
        return Crossing(claimed, crossed, contradicts(NAME, says))
    if ratio > MOST_RATIO:
        says += "; more than the claim explains, so other traffic shared the bus"
        return Crossing(claimed, crossed, silent(NAME, says))
    return Crossing(claimed, crossed, supports(NAME, says))


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
