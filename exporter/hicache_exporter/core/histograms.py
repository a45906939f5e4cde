"""Histograms of an engine, put together from their samples."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from hicache_exporter.core.engine_text import EngineText
from hicache_exporter.core.ranks import Series


@dataclass(frozen=True, slots=True)
class Histograms:
    bounds: tuple[str, ...]
    """Upper bounds as the engine writes them, the last is ``+Inf``."""
    series: tuple[Series, ...]
    """Values: count, sum, then one cumulative count per bound."""


def assemble(text: EngineText, name: str) -> Histograms:
    """The histograms ``name``. Those that lack their sum, ``+Inf`` or the bounds of the first are left out."""
    buckets: dict[frozenset[tuple[str, str]], dict[str, float]] = {}
    for sample in text.of(name + "_bucket"):
        labels = dict(sample.labels)
        bound = labels.pop("le", "")
        buckets.setdefault(frozenset(labels.items()), {})[bound] = sample.value
    sums = _by_labels(text, name + "_sum")
    counts = _by_labels(text, name + "_count")
    bounds: tuple[str, ...] = ()
    series = []
    for key, found in buckets.items():
        if "+Inf" not in found or key not in sums:
            continue
        bounds = bounds or tuple(found)
        if bounds == tuple(found):
            count = counts.get(key, found["+Inf"])
            series.append(Series(dict(key), (count, sums[key], *found.values())))
    return Histograms(bounds, tuple(series))


def _by_labels(text: EngineText, name: str) -> Mapping[frozenset[tuple[str, str]], float]:
    return {frozenset(sample.labels.items()): sample.value for sample in text.of(name)}
