"""One rank's flight recorder as the chain wants to know it."""

from __future__ import annotations

from hicache_exporter.core.identity import REQUIRED_WITH_HICACHE, watches
from hicache_proof.chain.facts import Process, Seam


def process(rank: str, *, running: bool, states: dict[str, str], fired: set[str]) -> Process:
    """``states``: by seam. A function counts as recorded if a seam of one of the classes that have it is attached."""
    return Process(
        rank=rank,
        running=running,
        seams=tuple(Seam(name=name, state=state, fired=name in fired) for name, state in sorted(states.items())),
        not_recorded=tuple(function for function in REQUIRED_WITH_HICACHE if not watches(states, (function,))),
    )
