"""Memory before and after, as the engine's gauges and the sidecar report it. Pure.

Nothing is worked out from anything else: what nobody reports is missing from the list.
"""

from __future__ import annotations

from prometheus_client.parser import text_string_to_metric_families

from hicache_proof.lab.engine import Reading
from hicache_proof.lab.run import Memory

_TIERS = (
    ("L1 size", "device_capacity"),
    ("L1 in use by requests", "device_used"),
    ("L1 cached, may be evicted", "device_evictable"),
    ("L2 size", "host_capacity"),
    ("L2 in use", "host_used"),
)


def compare(
    before: Reading, after: Reading, sidecar_before: bytes | None, sidecar_after: bytes | None
) -> tuple[Memory, ...]:
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
    first, last = _byte_gauges(sidecar_before), _byte_gauges(sidecar_after)
    measured = (
        Memory(name=name, unit="bytes", before=first.get(name), after=last.get(name), source="the sidecar")
        for name in sorted(first.keys() | last.keys())
    )
    return (*tiers, *measured)


def _byte_gauges(metrics: bytes | None) -> dict[str, float]:
    """Gauges of memory in bytes, by name and labels (engine and rank left out where they say nothing new)."""
    found: dict[str, float] = {}
    for family in text_string_to_metric_families((metrics or b"").decode("utf-8", "replace")):
        if family.type != "gauge" or "memory" not in family.name or not family.name.endswith("_bytes"):
            continue
        for sample in family.samples:
            labels = ", ".join(f"{key} {value}" for key, value in sorted(sample.labels.items()) if key != "engine")
            name = family.name.removeprefix("hicache_").removesuffix("_bytes").replace("_", " ")
            found[f"{name} ({labels})" if labels else name] = sample.value
    return found
