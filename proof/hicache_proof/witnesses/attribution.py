"""The engine's own account of the request's cached tokens: the scheduler's, and the one in the HTTP reply."""

from __future__ import annotations

from hicache_proof.evidence import Attribution, Evidence
from hicache_proof.witnesses.state import WitnessState, absent, contradicts, silent, supports

SCHEDULER = "attribution"
REPLY = "reply"


def testify_scheduler(evidence: Evidence) -> WitnessState:
    return _testify(SCHEDULER, evidence.attribution)


def testify_reply(evidence: Evidence) -> WitnessState:
    return _testify(REPLY, evidence.reply)


def _testify(name: str, attribution: Attribution | None) -> WitnessState:
    if attribution is None:
        return absent(name, "no cached tokens by source")
    if attribution.host_tokens is None:
        total = attribution.cached_tokens
        return silent(name, "gives no split by tier" + ("" if total is None else f" of its {total} cached tokens"))
    says = _says(attribution)
    return supports(name, says) if attribution.host_tokens > 0 else contradicts(name, says)


def _says(attribution: Attribution) -> str:
    parts = {"L1": attribution.device_tokens, "L2": attribution.host_tokens, "L3": attribution.storage_tokens}
    return "cached tokens " + ", ".join(f"{tier} {tokens}" for tier, tokens in parts.items() if tokens is not None)
