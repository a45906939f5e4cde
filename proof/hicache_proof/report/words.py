"""Explanations for a reader who has never seen the tool."""

from __future__ import annotations

from hicache_proof.lab import run

CONTROLS = run.CONTROLS

WITNESSES = {
    "lookup": "what the prefix tree promised the request",
    "load_back": "what the scheduler asked to be loaded, and what came of it",
    "residency": "where the blocks had been: copied to L2, gone from L1, not back since",
    "provenance": "who had written the host slots that were read",
    "transfer": "the copy from host to device itself",
    "attribution": "cached tokens by tier in the scheduler's account",
    "reply": "cached tokens by tier in the answer to the client",
    "counters": "the engine's own /metrics over the request's window",
    "physical": "bytes that crossed the PCIe bus, by the GPU's counters",
    "content": "signatures of the rows, when stored and when read back",
    "answer": "log-probabilities against the L1 run of the same prompt",
    "control": "the same load where no L2 read can happen",
    "ranks": "the same request on the other ranks",
}

TERMS = (
    (
        "HiCache",
        "SGLang's hierarchical KV cache: prefixes that leave GPU memory stay in host RAM and can be read back.",
    ),
    ("L1, L2, L3", "GPU memory, host RAM, and a storage backend behind it."),
    ("prefix", "The first tokens of a prompt. If their KV cache is kept, they need not be computed again."),
    ("load-back", "The copy of a prefix from L2 to L1 before its prefill."),
    ("TTFT", "Time to first token: from sending a request until its first token arrives."),
    ("page", "The unit in which the cache keeps tokens."),
    ("witness", "One independent source of what happened. Supports, contradicts, can't tell, or was not there."),
    ("proven", "Lookup, residency, provenance, transfer and attribution agree, nothing contradicts, nothing was lost."),
    ("corroborated", "Proven, and a witness from outside the engine's accounts agrees: bus bytes or row signatures."),
    ("only consistent", "The numbers are compatible with an L2 read, which is not a proof of one."),
    ("not observed", "Nobody saw it, or records were lost."),
    ("forced miss", "A prompt of the same shape that no cache can hold."),
)
