"""Everything that can be found, once: the stage it belongs to, how bad it is, and what to do about it."""

from __future__ import annotations

from typing import Literal, NamedTuple

import msgspec

StageName = Literal[
    "flags", "plugin", "metrics", "backup", "eviction", "occupancy", "match", "load_back", "attribution", "benefit"
]
Severity = Literal["error", "warning", "note"]
"""An error breaks the chain at its stage; a warning does not; a note is worth knowing."""


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    id: str
    stage: StageName
    severity: Severity
    says: str
    """What was found, with its numbers."""
    do: str
    """What to do about it."""


class _Kind(NamedTuple):
    stage: StageName
    severity: Severity
    do: str


_BREAK_EVEN = "Find the break-even length of this machine with `hicache-witness lab`; below it, L2 can't pay."
_RECORD = (
    "Install hicache-witness into the engine's environment and start the engine with HICACHE_WITNESS=1. If it "
    "runs with it already, give the address of its sidecar (--sidecar), or ask on its machine (--ring-dir)."
)

KINDS: dict[str, _Kind] = {
    "engine-silent": _Kind("flags", "error", "Check the address, and that the engine is up; it may want an API key."),
    "hicache-off": _Kind("flags", "error", "Start the engine with --enable-hierarchical-cache."),
    "buffer-mode": _Kind(
        "flags",
        "error",
        "Host memory is only a staging buffer in this mode and holds nothing to read back; leave out "
        "--hicache-host-memory-mode buffer_only to have an L2.",
    ),
    "dp-without-pinning": _Kind(
        "flags",
        "warning",
        "Send the turns of a conversation to the same replica: a router that routes by prefix or session, or "
        "data_parallel_rank in the request.",
    ),
    "both-sides-count": _Kind(
        "flags", "note", "Take hit rates from the prefill side only: both sides report the same cached tokens."
    ),
    "recorder-off": _Kind("plugin", "error", _RECORD),
    "no-sidecar": _Kind(
        "plugin",
        "warning",
        "The recorders write and nobody counts: start a sidecar beside the engine (`hicache-witness serve --engine "
        "URL`), or give the address of the one there is with --sidecar.",
    ),
    "sidecar-older-than-engine": _Kind(
        "plugin",
        "warning",
        "Its counts are left out here: --watch SECONDS judges what happens from now on, a sidecar started again what "
        "comes after its start.",
    ),
    "rank-without-recorder": _Kind(
        "plugin",
        "error",
        "Set HICACHE_WITNESS=1 and the same HICACHE_WITNESS_DIR for every rank, on every node; run a sidecar per node.",
    ),
    "seam-missing": _Kind(
        "plugin", "error", "This engine build is not known: take a newer hicache-witness, or report the build."
    ),
    "seam-tripped": _Kind(
        "plugin",
        "error",
        "The seam switched itself off after repeated faults of ours: report it with the engine's log, and restart the "
        "engine to arm it again.",
    ),
    "never-fired": _Kind(
        "plugin",
        "warning",
        "Requests have run past functions that should have recorded them: another cache class or process may be in "
        "use; compare the engine's class names with the seams listed by --json.",
    ),
    "records-lost": _Kind(
        "plugin", "warning", "Give the ring more room (HICACHE_WITNESS_SLOTS), or let the sidecar have more CPU."
    ),
    "metrics-off": _Kind("metrics", "error", "Start the engine with --enable-metrics; behind a key, pass the key too."),
    "counters-times-ranks": _Kind(
        "metrics",
        "warning",
        "In your own queries divide the engine's load-back, backup and eviction counters by the number of ranks; the "
        "hicache_ families are already divided.",
    ),
    "families-missing": _Kind("metrics", "note", "Each line names the flag, version or event that would bring it."),
    "policy-never-backed-up": _Kind(
        "backup",
        "error",
        "Take --hicache-write-policy write_through: it backs a prefix up at its first use.",
    ),
    "prompt-over-chunk": _Kind(
        "backup",
        "error",
        "Raise --chunked-prefill-size above the length of your prompts, or take an engine that backs up chunked "
        "prompts; check it with the backup counter, not with the policy's name.",
    ),
    "prompts-over-chunk": _Kind(
        "backup",
        "warning",
        "Prompts longer than --chunked-prefill-size may never be backed up: raise it, or check with one such prompt.",
    ),
    "nothing-backed-up": _Kind(
        "backup", "error", "Look into the engine's log for failed or refused writes to the host pool."
    ),
    "host-smaller-than-device": _Kind(
        "backup",
        "warning",
        "Make L2 at least as large as L1, better several times (--hicache-ratio or --hicache-size): a smaller one "
        "refuses writes and holds nothing that L1 does not.",
    ),
    "backups-refused": _Kind(
        "backup", "warning", "The host pool was full of locked blocks: enlarge it (--hicache-ratio, --hicache-size)."
    ),
    "evicted-without-copy": _Kind(
        "eviction",
        "warning",
        "What leaves L1 without a copy is lost: take write_through, and a host pool larger than L1.",
    ),
    "l1-never-full": _Kind(
        "eviction", "note", "L1 still holds everything: L2 can't be read before L1 evicts. Nothing to do."
    ),
    "l1-kept-meanwhile": _Kind(
        "eviction", "note", "L1 evicts only when it is full: watch for longer, under the load that is in question."
    ),
    "l2-empty": _Kind(
        "occupancy", "warning", "The cache may have been flushed, or the gauge is old: older engines refresh it rarely."
    ),
    "pool-empty": _Kind(
        "occupancy",
        "warning",
        "A hybrid model needs the state of this pool as well: without it a stored prefix can't be used.",
    ),
    "l2-evicted-first": _Kind(
        "occupancy",
        "error",
        "L2 forgets a prefix before it is asked for again: enlarge it (--hicache-ratio, --hicache-size) or add L3.",
    ),
    "stored-never-matched": _Kind(
        "match",
        "error",
        "Prefixes are stored and asked for again, and L2 is never matched. On hybrid models this is a known fault: see "
        "the known issues below; else check that equal prompts are equal token by token.",
    ),
    "no-reuse-seen": _Kind(
        "match",
        "warning",
        "No prefix was asked for twice, as far as can be seen: L2 can't help such a load. `hicache-witness lab` "
        "proves the path itself.",
    ),
    "below-threshold": _Kind(
        "load_back", "error", "Reuse shorter than the threshold is never loaded: use longer shared prefixes."
    ),
    "over-quota": _Kind(
        "load_back",
        "error",
        "The prefill batch had no room for the tokens: lower the load, or raise --max-prefill-tokens and the memory "
        "fraction.",
    ),
    "no-room": _Kind(
        "load_back",
        "error",
        "L1 was full of blocks in use: lower the number of running requests, or enlarge L1 (--mem-fraction-static).",
    ),
    "declined": _Kind("load_back", "error", "Ask for the proof of one request (/proofs/ID): it tells why."),
    "some-declined": _Kind(
        "load_back", "warning", "Ask for the proof of such a request (/proofs/ID), and watch hicache_load_backs_total."
    ),
    "multi-tokenizer": _Kind(
        "attribution",
        "error",
        "Take an engine of 0.5.13 or later, or --tokenizer-worker-num 1: the split by tier is lost on its way.",
    ),
    "unattributed": _Kind(
        "attribution", "error", "Count L1 and L2 as unknown, not as zero, until the engine gives the split."
    ),
    "attributed-elsewhere": _Kind(
        "attribution",
        "error",
        "L2 is read and not credited: an admission retry makes the engine count it as device. Trust the transfers.",
    ),
    "claimed-not-moved": _Kind(
        "attribution",
        "error",
        "The engine credits L2 with tokens that it never loaded (up to 0.5.19 it credits declined load-backs): trust "
        "the transfers, not cached_tokens.",
    ),
    "more-moved-than-credited": _Kind(
        "attribution",
        "warning",
        "If the factor is the number of ranks, the counters are added up over the ranks: divide by it.",
    ),
    "reply-unreliable": _Kind(
        "attribution",
        "warning",
        "The cached tokens in replies are unreliable on this build: use the counters.",
    ),
    "hit-but-late": _Kind(
        "benefit",
        "error",
        "Loading takes most of the time to the first token: check the PCIe link, pinned memory and NUMA node, and "
        "whether many loads start at once.",
    ),
    "hit-no-gain": _Kind("benefit", "error", _BREAK_EVEN),
}


def found(id_: str, says: str) -> Finding:
    kind = KINDS[id_]
    return Finding(id=id_, stage=kind.stage, severity=kind.severity, says=says, do=kind.do)
