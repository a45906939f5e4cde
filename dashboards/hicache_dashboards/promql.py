"""PromQL as text, from metric families.

Labels are never written out by hand: what an aggregation drops or keeps is derived from the family, so a family that
gains a label can't silently split or merge a ratio.
"""

from __future__ import annotations

from collections.abc import Mapping

from hicache_exporter.names import Family

_BUCKET = ("le",)


def sample(family: Family, part: str = "") -> str:
    """The name of the family's samples; ``part`` is bucket, sum or count for a histogram."""
    if family.type == "info":
        return f"{family.name}_info"
    return f"{family.series}_{part}" if part else family.series


def select(family: Family, matchers: Mapping[str, str] | None = None, part: str = "", common: str = "") -> str:
    """A selector. A matcher's value may start with an operator: ``{"tier": "!=none"}``, ``{"state": "=~a|b"}``."""
    labels = [common] if common else []
    labels += [_matcher(label, value) for label, value in (matchers or {}).items()]
    return sample(family, part) + (f"{{{','.join(labels)}}}" if labels else "")


def _matcher(label: str, value: str) -> str:
    for operator in ("=~", "!~", "!="):
        if value.startswith(operator):
            return f'{label}{operator}"{value.removeprefix(operator)}"'
    return f'{label}="{value}"'


def own_labels(family: Family, part: str = "") -> tuple[str, ...]:
    """Labels that the family adds to those of its target and engine."""
    labels = tuple(label for label in family.labels if label != "engine")
    return (*labels, *_BUCKET) if part == "bucket" else labels


def has_engine(family: Family) -> bool:
    """False for what describes the sidecar or its machine."""
    return "engine" in family.labels or family.source in ("recorder", "engine", "proof")


def number(value: float) -> str:
    """A threshold as PromQL reads it, without a tail of zeros."""
    return str(int(value)) if value == int(value) else repr(value)


def ratio(part: str, whole: str, matching: str = "") -> str:
    """A share, or a mean. No traffic gives no sample: 0/0 is neither 0 nor NaN here."""
    return f"{part} /{' ' + matching if matching else ''} ({whole} > 0)"
