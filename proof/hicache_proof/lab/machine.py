"""The machine under the engine: memory before and after the run, and the GPU's driver. Pure.

From the engine's gauges and the sidecar's /metrics. Nothing is worked out from anything else: what nobody reports is
missing from the list.
"""

from __future__ import annotations

from collections.abc import Iterator

from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.samples import Sample

from hicache_exporter import names
from hicache_proof.lab.engine import Reading
from hicache_proof.lab.run import Energy, Memory

_TIERS = (
    ("L1 size", "device_capacity"),
    ("L1 in use by requests", "device_used"),
    ("L1 cached, may be evicted", "device_evictable"),
    ("L2 size", "host_capacity"),
    ("L2 in use", "host_used"),
)
_KINDS = {
    names.GPU_MEMORY_USED.name: ({"": "in use"}, "GPU {gpu}: memory {kind}"),
    names.HOST_MEMORY.name: ({"available": "available"}, "host RAM {kind}"),
    names.RANK_MEMORY.name: ({"resident": "resident", "pinned": "pinned"}, "engine, rank {rank}: memory {kind}"),
}
"""Family: the kinds of it that are shown, and under which name."""


def compare(
    before: Reading, after: Reading, sidecar_before: bytes | None, sidecar_after: bytes | None, engine: str
) -> tuple[Memory, ...]:
    """``engine``: as the sidecar labels it; it may watch others as well."""
    tiers = (
        Memory(
            name=name,
            unit="tokens",
            before=getattr(before, field),
            after=getattr(after, field),
            source="the engine's gauge",
        )
        for name, field in _TIERS
        if getattr(before, field) is not None or getattr(after, field) is not None
    )
    first, last = dict(_bytes(sidecar_before, engine)), dict(_bytes(sidecar_after, engine))
    measured = (
        Memory(name=name, unit="bytes", before=first.get(name), after=last.get(name), source="the sidecar")
        for name in dict.fromkeys((*first, *last))
    )
    return (*tiers, *measured)


def energy(sidecar_before: bytes | None, sidecar_after: bytes | None) -> tuple[Energy, ...]:
    """Of each GPU over the run; a counter that is lower afterwards was reset, so it says nothing."""
    first, last = (
        {s.labels.get("gpu", ""): s.value for s in samples(scrape) if s.name == names.GPU_ENERGY.series}
        for scrape in (sidecar_before, sidecar_after)
    )
    return tuple(
        Energy(gpu=gpu, joules=last[gpu] - first[gpu]) for gpu in first if gpu in last and last[gpu] >= first[gpu]
    )


def gpu_driver(sidecar: bytes | None) -> str | None:
    """None where there is no GPU or nobody told."""
    found = (sample.labels.get("driver") for sample in samples(sidecar) if sample.name == names.GPU_INFO.name + "_info")
    return next((driver for driver in found if driver), None)


def _bytes(sidecar: bytes | None, engine: str) -> Iterator[tuple[str, float]]:
    for sample in samples(sidecar):
        kinds, name = _KINDS.get(sample.name, ({}, ""))
        kind = kinds.get(sample.labels.get("kind", ""))
        if kind is not None and sample.labels.get("engine", engine) == engine:
            yield name.format(**sample.labels | {"kind": kind}), sample.value


def samples(sidecar: bytes | None) -> list[Sample]:
    """Of the sidecar's /metrics; none where there is no sidecar, or something else answers in its place."""
    try:
        families = list(text_string_to_metric_families((sidecar or b"").decode("utf-8", "replace")))
    except ValueError:
        return []
    return [sample for family in families for sample in family.samples]
