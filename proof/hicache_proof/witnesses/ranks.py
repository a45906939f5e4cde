"""The same request on the sibling ranks: every rank of a tensor-parallel group must tell the same story."""

from __future__ import annotations

from hicache_proof.amounts import moved
from hicache_proof.evidence import Evidence, RankView
from hicache_proof.witnesses.state import WitnessState, absent, contradicts, silent, supports

NAME = "ranks"


def testify(evidence: Evidence) -> WitnessState:
    if not evidence.ranks:
        return absent(NAME, "no sibling ranks")
    odd = [view for view in evidence.ranks if disagrees(evidence, view)]
    if odd:
        return contradicts(NAME, "; ".join(_says(view) for view in odd))
    told = [view for view in evidence.ranks if view.host_tokens is not None or view.loaded_tokens is not None]
    if not told or not any((view.host_tokens or 0) > 0 or (view.loaded_tokens or 0) > 0 for view in told):
        return silent(NAME, f"{len(evidence.ranks)} sibling rank(s), none of them tells of an L2 read")
    return supports(NAME, f"{len(told)} sibling rank(s) tell the same: {_says(told[0])}")


def disagrees(evidence: Evidence, view: RankView) -> bool:
    """The sibling gives another figure for the very quantity that this rank gives too."""
    own_host = evidence.attribution.host_tokens if evidence.attribution is not None else None
    return _differ(own_host, view.host_tokens) or _differ(moved(evidence), view.loaded_tokens)


def _differ(own: int | None, other: int | None) -> bool:
    return own is not None and other is not None and own != other


def _says(view: RankView) -> str:
    host = "unknown" if view.host_tokens is None else view.host_tokens
    loaded = "unknown" if view.loaded_tokens is None else view.loaded_tokens
    return f"rank {view.rank} attributed {host} and loaded {loaded} L2 tokens"
