"""What stands around the caches: ranks, prefill chunks, L3, host memory, pinning and NUMA, each with its numbers. Pure.

From what the engine says of itself and from the sidecar's /metrics. What nobody reports is said to be unknown.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from msgspec.structs import replace

from hicache_exporter import names
from hicache_proof.lab.engine import EngineFacts
from hicache_proof.lab.machine import samples
from hicache_proof.lab.plan import Plan
from hicache_proof.lab.run import Check
from hicache_proof.units import size

NARROW = 0.05
"""Share of a memory limit; with less of it left, the kernel may end the engine while the lab runs."""
UNPINNED = 0.95
"""Less of L2 in pinned memory than this share: copies to a GPU go through a bounce buffer."""


class Scrape(NamedTuple):
    """The sidecar's samples by family, each with its labels."""

    samples: Mapping[str, Sequence[tuple[Mapping[str, str], float]]]

    def of(self, family: names.Family, *labels: str) -> dict[tuple[str, ...], float]:
        """Values by those labels, in that order."""
        found = self.samples.get(family.name, ())
        return {tuple(named.get(label, "") for label in labels): value for named, value in found}


def scrape(metrics: bytes | None, engine: str) -> Scrape:
    """``engine``: as the sidecar labels it; it may watch others as well."""
    found: dict[str, list[tuple[Mapping[str, str], float]]] = {}
    for sample in samples(metrics):
        if sample.labels.get("engine", engine) == engine:
            found.setdefault(sample.name, []).append((sample.labels, sample.value))
    return Scrape(found)


def checks(facts: EngineFacts, plan: Plan, seen: Scrape) -> tuple[Check, ...]:
    return (
        _ranks(facts),
        _chunks(facts, plan),
        _storage(facts),
        _host_memory(seen),
        _pinning(facts, seen),
        _numa(facts, seen),
    )


def _ranks(facts: EngineFacts) -> Check:
    ranks = facts.tp_size * facts.pp_size
    says = f"tensor {facts.tp_size} x pipeline {facts.pp_size} = {ranks} of one replica; data {facts.dp_size}"
    if facts.dp_rank is not None:
        says += f", of which rank {facts.dp_rank} alone is asked"
    return Check(name="ranks", state="passed", says=says + "; counters are taken per group, not summed over ranks")


def _chunks(facts: EngineFacts, plan: Plan) -> Check:
    chunk = facts.chunked_prefill_tokens
    if chunk is None:
        return Check(name="prefill", state="passed", says="the engine does not cut prompts into chunks")
    pieces = -(-plan.prompt_tokens // chunk)
    says = f"a prompt of {plan.prompt_tokens:,} tokens in chunks of {chunk:,}: {pieces} to compute when cold"
    return Check(name="prefill", state="passed" if pieces == 1 else "warning", says=says)


def _storage(facts: EngineFacts) -> Check:
    if facts.storage_backend is None:
        return Check(name="L3", state="passed", says="no storage backend attached: what leaves L2 is gone")
    policy = facts.prefetch_policy or "not given"
    says = f"{facts.storage_backend} attached, prefetch policy {policy}; all that the run writes stays there afterwards"
    return Check(name="L3", state="passed", says=says)


def _host_memory(seen: Scrape) -> Check:
    machine = seen.of(names.HOST_MEMORY, "kind")
    available, total = machine.get(("available",)), machine.get(("total",))
    if available is None or total is None:
        return _unknown("host memory")
    parts, narrow = [f"{size(available)} of the machine's {size(total)} available"], available < NARROW * total
    for rank, kinds in _by_rank(seen, names.RANK_CGROUP, "kind").items():
        current, limit = kinds.get("current"), kinds.get("limit")
        if limit is None or current is None:
            parts.append(f"rank {rank}: no limit on its cgroup")
            continue
        parts.append(f"rank {rank}: limit {size(limit)} - {size(current)} in use = {size(limit - current)} left")
        narrow = narrow or limit - current < NARROW * limit
    return Check(name="host memory", state="warning" if narrow else "passed", says="; ".join(parts))


def _pinning(facts: EngineFacts, seen: Scrape) -> Check:
    parts, lost = [], False
    held = seen.of(names.RANK_L2_PINNED, "rank")
    for (rank,), configured in seen.of(names.RANK_L2, "rank").items():
        pinned = held.get((rank,))
        if pinned is None:
            parts.append(f"rank {rank}: not told by its recorder")
            continue
        parts.append(f"rank {rank}: {size(pinned)} pinned, L2 configured {size(configured)}")
        lost = lost or pinned < UNPINNED * configured
    if not parts:
        return _unknown("pinning")
    if facts.device == "cpu":
        parts.append("an engine on the CPU has no bus to cross and pins nothing")
    return Check(name="pinning", state="warning" if lost and facts.device != "cpu" else "passed", says="; ".join(parts))


def _numa(facts: EngineFacts, seen: Scrape) -> Check:
    gpus = [f"GPU {gpu} is on node {node:.0f}" for (gpu,), node in seen.of(names.GPU_NUMA_NODE, "gpu").items()]
    parts = [
        f"rank {rank}: " + ", ".join(f"{share:.0%} of its L2 sample on node {node}" for node, share in nodes.items())
        for rank, nodes in _by_rank(seen, names.RANK_NUMA, "node").items()
    ]
    parts += [
        f"rank {rank}: nodes not known ({why})" for rank, why in seen.of(names.RANK_NUMA_HIDDEN, "rank", "reason")
    ]
    if parts or gpus:
        return Check(name="NUMA", state="passed", says="; ".join(parts + gpus))
    # without a GPU there is no bus whose node could be the wrong one
    return replace(_unknown("NUMA"), state="passed") if facts.device == "cpu" else _unknown("NUMA")


def _by_rank(seen: Scrape, family: names.Family, label: str) -> dict[str, dict[str, float]]:
    found: dict[str, dict[str, float]] = {}
    for (rank, value), number in seen.of(family, "rank", label).items():
        found.setdefault(rank, {})[value] = number
    return found


def _unknown(name: str) -> Check:
    return Check(name=name, state="warning", says="not known: nobody on the engine's machine reports it")
