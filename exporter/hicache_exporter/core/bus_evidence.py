"""What the bus saw of a request's load-back, as evidence: the claim of the engine beside the bytes of the window."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from hicache_exporter.core.identity import Identity
from hicache_exporter.core.pcie_window import BusWindow
from hicache_proof.evidence import Physical, Transfer


class Claim(NamedTuple):
    """Bytes that the engine says it moved from host to device between two moments (CLOCK_MONOTONIC)."""

    bytes: int
    t0_ns: int
    t1_ns: int


class RankClaim(NamedTuple):
    """What one rank claims for a request, and who it is. None: it claims nothing that could be measured."""

    identity: Identity
    claim: Claim | None


def claim_of(transfers: Iterable[Transfer] | None) -> Claim | None:
    """The load-back transfers of one request taken together. None: there are none, or one is unfinished or unsized."""
    found = list(transfers or ())
    sizes = [transfer.bytes for transfer in found if transfer.bytes is not None]
    ends = [transfer.finished_ns for transfer in found if transfer.finished and transfer.finished_ns is not None]
    if not found or len(sizes) < len(found) or len(ends) < len(found):
        return None
    return Claim(sum(sizes), min(map(_begin, found)), max(ends))


def _begin(transfer: Transfer) -> int:
    return transfer.submitted_ns if transfer.queued_ns is None else transfer.queued_ns


def physical(claim: Claim, seen: BusWindow) -> Physical:
    """The claim against the window. A window that can't be held against it says why, and keeps what was measured."""
    moved, baseline = (seen.moved.rx if seen.moved else None), (seen.baseline.rx if seen.baseline else None)
    why_not = _why_not(claim, seen, moved, baseline)
    return Physical(
        claimed_bytes=claim.bytes,
        bus_bytes=moved,
        baseline_bytes=baseline,
        usable=why_not is None,
        why_not=why_not,
    )


def _why_not(claim: Claim, seen: BusWindow, moved: int | None, baseline: int | None) -> str | None:
    if seen.why_not is not None:
        return seen.why_not
    if moved is None:
        return "no bytes were measured in the window"
    if baseline is None:
        return "too few samples before the window for its quiet rate"
    if not seen.exact and moved - baseline < claim.bytes:
        return "fewer bytes than claimed, but the sampler rested in the window and may have missed a wrap"
    return None
