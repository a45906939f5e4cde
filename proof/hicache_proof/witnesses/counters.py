"""Deltas of the engine's own counters over the request's window, where nothing else was served in it."""

from __future__ import annotations

from hicache_proof.evidence import Evidence
from hicache_proof.witnesses.state import WitnessState, absent, contradicts, silent, supports

NAME = "counters"


def usable(evidence: Evidence) -> bool:
    """The deltas can be held against this one request: it was alone, and one clock placed the window."""
    counters = evidence.counters
    return counters is not None and counters.exclusive and not evidence.recorder.clock_stepped


def testify(evidence: Evidence) -> WitnessState:
    counters = evidence.counters
    if counters is None:
        return absent(NAME, "the engine's counters were not read around this request")
    says = f"load-back {_show(counters.load_back_tokens)}, cached from host {_show(counters.cached_host_tokens)} tokens"
    if not counters.exclusive:
        return silent(NAME, f"{says}; other requests shared the window")
    if evidence.recorder.clock_stepped:
        return silent(NAME, f"{says}; a clock was stepped, the window can't be placed")
    if counters.load_back_tokens is None:
        return silent(NAME, f"{says}; no load-back counter on this engine")
    return supports(NAME, says) if counters.load_back_tokens > 0 else contradicts(NAME, says)


def _show(tokens: int | None) -> str:
    return "(no such counter)" if tokens is None else str(tokens)
