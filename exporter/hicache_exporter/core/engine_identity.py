"""Who answered: what the engine is, which run of it this is, and which of its ranks speak."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from hicache_exporter.core.engine_families import OTHER, PID_BEARER, PROCESS_START, ROWS, STARTUP
from hicache_exporter.core.engine_info import EngineInfo
from hicache_exporter.core.engine_text import EngineText
from hicache_exporter.core.ranks import identity

LONGEST_LABEL = 200
SPOKEN_BY_REPORTING_RANKS = "num_running_reqs"
"""Other scheduler metrics come from every rank, some of them as zeros that never move."""


@dataclass(frozen=True, slots=True)
class Incarnation:
    """Marks of one run of an engine. Which of them an engine gives depends on its version."""

    process_start: float | None = None
    startup: Mapping[str, float] | None = None
    """Seconds that each phase of the start took: the same digits for the life of a process."""
    pids: frozenset[str] = frozenset()

    def follows(self, earlier: Incarnation) -> bool | None:
        """True: another run than ``earlier``. False: the same. None: these marks can't tell."""
        marks = [_differ(self.process_start, earlier.process_start), self._other_startup(earlier)]
        if self.pids and earlier.pids:
            marks.append(self.pids.isdisjoint(earlier.pids))
        known = [mark for mark in marks if mark is not None]
        return any(known) if known else None

    def _other_startup(self, earlier: Incarnation) -> bool | None:
        mine, theirs = self.startup or {}, earlier.startup or {}
        common = mine.keys() & theirs.keys()  # phases are added while an engine starts
        return any(mine[phase] != theirs[phase] for phase in common) if common else None


def _differ(one: float | None, other: float | None) -> bool | None:
    return None if one is None or other is None else one != other


def incarnation(text: EngineText) -> Incarnation:
    starts = [sample.value for sample in text.of(PROCESS_START)]
    startup = {sample.labels.get("phase", ""): sample.value for sample in text.of(STARTUP)}
    pids = frozenset(sample.labels["pid"] for sample in text.of(PID_BEARER) if "pid" in sample.labels)
    return Incarnation(max(starts, default=None), startup or None, pids)


def description(text: EngineText, info: EngineInfo | None, tree: str | None = None) -> dict[str, str]:
    """Labels of hicache_engine_info; "" where neither the engine nor, of its ``tree``, the recorder says."""
    info = info or EngineInfo()
    switches = {True: "on", False: "off", None: ""}
    found = {
        "version": info.version,
        "model": info.served_model_name or _only(text, "model_name"),
        "tree": _only(text, "cache_type") or tree,
        "write_policy": info.hicache_write_policy,
        "page_size": info.page_size,
        "tp_size": info.tp_size,
        "dp_size": info.dp_size,
        "hicache": switches[info.enable_hierarchical_cache],
        "storage": info.hicache_storage_backend,
        "role": _only(text, "engine_type") or info.disaggregation_mode,
    }
    return {name: "" if value is None else str(value)[:LONGEST_LABEL] for name, value in found.items()}


def _only(text: EngineText, label: str) -> str | None:
    values = {sample.labels[label] for samples in text.samples.values() for sample in samples if label in sample.labels}
    return None if not values else values.pop() if len(values) == 1 else OTHER


@dataclass(frozen=True, slots=True)
class Reporter:
    name: str
    seen: int
    expected: int | None


def reporters(text: EngineText, info: EngineInfo | None) -> list[Reporter]:
    """Schedulers that report, and trees where the engine labels them by rank (0.5.21 and later)."""
    schedulers = {identity(sample.labels) for sample in text.of(SPOKEN_BY_REPORTING_RANKS)}
    trees = {
        identity(sample.labels)
        for row in ROWS
        for sample in text.of(row.engine)
        if "cache_type" in sample.labels and "tp_rank" in sample.labels
    }
    shape = info.shape if info else None
    found = []
    if schedulers:
        found.append(Reporter("scheduler", len(schedulers), _reporting(info)))
    if trees:
        found.append(Reporter("tree", len(trees), shape.tree_identities if shape else None))
    return found


def _reporting(info: EngineInfo | None) -> int | None:
    if info is None or info.shape is None:
        return None
    return info.shape.local_ranks if info.enable_metrics_for_all_schedulers else info.shape.reporting_ranks
