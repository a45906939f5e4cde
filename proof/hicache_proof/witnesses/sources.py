"""Where the numbers of each witness come from, for the certificate."""

from __future__ import annotations

SOURCES: dict[str, str] = {
    "lookup": "flight recorder: the engine's PrefillAdder.add_one_req, before admission",
    "load_back": "flight recorder: what the engine's init_load_back returned",
    "residency": "ledger of the sidecar: recorded backups, evictions and loads, never the engine's tree",
    "provenance": "ledger of the sidecar: host slots that backups wrote, against the host slots that the load read",
    "transfer": "flight recorder: the cache controller's transfers, timed by the engine's own device events",
    "attribution": "flight recorder: the scheduler's cached tokens by source, at the request's first prefill",
    "reply": "the engine's HTTP reply: cached_tokens_details",
    "counters": "the engine's /metrics: counter deltas over the request's window",
    "physical": "NVML: cumulative PCIe byte counters of the GPU (fields 197 and 198)",
    "content": "signatures of the KV rows, taken on the device at backup and again after the load",
    "answer": "lab: log-probabilities and markers of the answer, against the L1 run of the same prompt",
    "control": "lab: the same load where no L2 read can happen",
    "ranks": "flight recorders of the sibling ranks",
}
