"""One answer of an engine, as numbers under our names. Pure: text and /server_info in, values out.

Three things are kept apart: a number, a zero that the engine has not written yet but that is certain (a labelled
counter exists from its first use on), and a metric that is missing, with the flag that would bring it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from hicache_exporter import names
from hicache_exporter.core.engine_expectations import Expectations
from hicache_exporter.core.engine_families import ROWS, UNATTRIBUTED, Ranks, Row
from hicache_exporter.core.engine_info import EngineInfo
from hicache_exporter.core.engine_text import EngineText
from hicache_exporter.core.histograms import assemble
from hicache_exporter.core.ranks import Basis, Combined, Series, Vector, logical, total
from hicache_exporter.names import Family

UNUSABLE = "a usable value"
"""The metric is there, but NaN, or a histogram with holes."""
UNKNOWN_RANKS = "/server_info (how many ranks are added up)"


class Value(NamedTuple):
    family: Family
    labels: tuple[str, ...]
    """Values of the family's labels, in their order."""
    values: Vector
    bounds: tuple[str, ...] = ()
    """Of a histogram, whose values are count, sum, buckets."""
    assumed: bool = False
    """A zero of ours for a counter that the engine has not used yet."""


@dataclass(slots=True)
class EngineView:
    values: list[Value] = field(default_factory=list)
    missing: dict[str, str] = field(default_factory=dict)
    """Metric of the engine that was expected: the flag, version or event that would bring it."""
    basis: dict[tuple[str, Basis], int] = field(default_factory=dict)
    """Counter and what was done with its ranks: ranks that it stood for."""
    tiers_seen: dict[str, bool] = field(default_factory=dict)
    tree: str | None = None
    """Class of the tree, as far as it is known (see engine_trees)."""


class _Found(NamedTuple):
    series: Iterable[Series]
    bounds: tuple[str, ...] = ()


def view(text: EngineText, info: EngineInfo | None, tree: str | None = None) -> EngineView:
    """``info``: None while the engine's /server_info is not known. ``tree``: what is known of it beside this text."""
    return _Builder(text, info, tree).build()


class _Builder:
    def __init__(self, text: EngineText, info: EngineInfo | None, tree: str | None) -> None:
        self._text = text
        self._shape = info.shape if info else None
        self._info = info
        self._expect = Expectations(text, info, tree)
        self._view = EngineView(tree=self._expect.tree)

    def build(self) -> EngineView:
        groups: dict[object, list[Row]] = {}
        for row in ROWS:
            groups.setdefault(row.group, []).append(row)
        for rows in groups.values():
            self._group(rows)
        self._device_capacity()
        return self._view

    def _group(self, rows: list[Row]) -> None:
        present = next((row for row in rows if self._expect.present(row)), None)
        row = present or self._expect.best(rows)
        numbers = self._with_zeros(row, self._numbers(row) if present else {})
        self._view.values.extend(self._value(row, label, number) for label, number in numbers.items())
        flag = self._expect.flag(row) if not present else UNUSABLE if not numbers else None
        if flag is not None:
            self._view.missing.setdefault(row.engine, flag)

    def _numbers(self, row: Row) -> dict[str, _Number]:
        """By the value of the label that the row splits by; one number under "" where it does not."""
        found = _series(row, self._text)
        parts: dict[str, list[Series]] = {}
        for one in found.series:
            label = "" if row.split is None else row.split.value(one.labels.get(row.split.engine, ""))
            if label is not None:
                parts.setdefault(label, []).append(one)
        numbers = {}
        for label, series in parts.items():
            combined = self._combine(row, series)
            if combined is not None:
                numbers[label] = _Number(combined.values, found.bounds)
        return numbers

    def _combine(self, row: Row, series: list[Series]) -> Combined | None:
        combined = total(series, self._shape) if row.ranks is Ranks.SHARE else logical(series, self._shape)
        if combined is None:
            self._view.missing[row.engine] = UNKNOWN_RANKS
        elif combined.ranks and row.family.type == "counter":
            self._view.basis[row.family.name, combined.basis] = combined.ranks
        return combined

    def _with_zeros(self, row: Row, numbers: dict[str, _Number]) -> dict[str, _Number]:
        if row.family is names.ENGINE_CACHED_TOKENS:
            return self._tiers_with_zeros(numbers)
        if row.family.type != "counter" or row.engine in self._view.missing or not self._expect.zero(row):
            return numbers
        zeros = row.split.zeros if row.split else ("",)
        return {**dict.fromkeys(zeros, _ZERO), **numbers}

    def _tiers_with_zeros(self, numbers: dict[str, _Number]) -> dict[str, _Number]:
        """Known tiers start at 0, but not beside unattributed tokens: these may be any tier's."""
        known = ("device", "host", "storage") if self._expect.storage else ("device", "host")
        self._view.tiers_seen = {tier: tier in numbers for tier in known}
        if UNATTRIBUTED in numbers:
            return numbers
        return {**dict.fromkeys(known, _ZERO), **numbers}

    def _value(self, row: Row, label: str, number: _Number) -> Value:
        labels = dict(row.labels)
        if row.split:
            labels[row.split.ours] = label
        if row.dated:
            labels[row.dated.label] = row.dated.value(self._info.release if self._info else None)
        return Value(row.family, tuple(labels[name] for name in row.family.labels), *number)

    def _device_capacity(self) -> None:
        """The one gauge that /server_info can stand in for: the engine publishes it only after its first request."""
        metric = "max_total_num_tokens"
        if metric in self._view.missing and self._info and self._shape and self._info.max_total_num_tokens is not None:
            del self._view.missing[metric]
            tokens = float(self._info.max_total_num_tokens * self._shape.local_groups)
            self._view.values.append(Value(names.ENGINE_CAPACITY, ("device",), (tokens,)))


class _Number(NamedTuple):
    values: Vector
    bounds: tuple[str, ...] = ()
    assumed: bool = False


_ZERO = _Number((0.0,), assumed=True)


def _series(row: Row, text: EngineText) -> _Found:
    if row.family.type == "histogram":
        histograms = assemble(text, row.engine)
        return _Found([one for one in histograms.series if _counts(row, one.labels)], histograms.bounds)
    samples = (sample for sample in text.of(row.engine) if not math.isnan(sample.value))
    return _Found([Series(sample.labels, (sample.value,)) for sample in samples if _counts(row, sample.labels)])


def _counts(row: Row, labels: Mapping[str, str]) -> bool:
    if row.pool is not None and labels.get("pool", row.pool) != row.pool:
        return False
    # Schedulers with priorities write a total (priority="") and its parts; front ends write only parts.
    return row.ranks is Ranks.SHARE or not labels.get("priority")
