"""The comparison as rows of text, the same for a terminal and for an issue tracker. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from hicache_proof.compare.comparison import Comparison, Difference, Times
from hicache_proof.compare.side import OTHER_ENGINE, Side, told
from hicache_proof.stats import Effect, Interval, Summary
from hicache_proof.units import size

SERIES = {"miss": "forced miss", "marker": "planted markers", OTHER_ENGINE: "control (HiCache off)"}
"""What the lab calls those that have no letter."""


class Table(NamedTuple):
    title: str
    head: tuple[str, ...]
    rows: list[tuple[str, ...]]


def tables(found: Comparison) -> Iterator[Table]:
    """Those that have rows."""
    every = (
        Table("Verdict", ("", "A", "B"), list(_verdicts(found))),
        Table("Time to first token", ("", "result A", "result B", "B / A"), [_times(row) for row in found.times]),
        Table("Read from L2 by the request that decided", ("", "A", "B"), list(_amounts(found.a, found.b))),
        Table("Versions that differ", ("", "A", "B"), [_difference(row) for row in found.versions]),
        Table("Configuration that differs", ("", "A", "B"), [_difference(row) for row in found.configuration]),
    )
    return (table for table in every if table.rows)


def _verdicts(found: Comparison) -> Iterator[tuple[str, ...]]:
    a, b = found.a, found.b
    yield ("result of", f"{a.kind}, {a.at}", f"{b.kind}, {b.at}")
    yield ("verdict", a.verdict, b.verdict)
    yield ("content", a.content, b.content)
    if a.effect is not None or b.effect is not None:
        yield ("L2 against its own control", _effect(a.effect), _effect(b.effect))


def _effect(effect: Effect | None) -> str:
    if effect is None:
        return "not told"
    if effect.ratio is None or effect.ratio_interval is None:
        return f"no figure: {effect.why}"
    return f"{effect.says.replace('_', ' ')}, {_ratio(effect)}"


def _ratio(effect: Effect) -> str:
    return _quotient(effect.ratio, effect.ratio_interval) if effect.ratio and effect.ratio_interval else ""


def _quotient(ratio: float, interval: Interval) -> str:
    return f"{ratio:.2f} [{interval.low:.2f}, {interval.high:.2f}]"


def _times(row: Times) -> tuple[str, ...]:
    return (SERIES.get(row.series, f"series {row.series}"), _summary(row.a), _summary(row.b), _change(row.change))


def _summary(summary: Summary | None) -> str:
    if summary is None:
        return "none"
    interval = summary.interval
    between = f" [{_ms(interval.low)}, {_ms(interval.high)}]" if interval is not None else ""
    return f"{_ms(summary.median)}{between} ms, n={summary.count}"


def _ms(seconds: float) -> str:
    return f"{1000 * seconds:.1f}"


def _change(change: Effect | None) -> str:
    if change is None:
        return "not comparable"
    if change.ratio is None or change.ratio_interval is None:
        return f"no figure: {change.why}"
    interval = change.ratio_interval
    # the effect is A's time over B's; B's over A's is what a reader expects of "B slower"
    times = _quotient(1 / change.ratio, Interval(low=1 / interval.high, high=1 / interval.low))
    word = {"faster": "B faster", "slower": "B slower", "no_difference": "no difference", "refused": ""}[change.says]
    return f"{times}: {word}"


def _amounts(a: Side, b: Side) -> Iterator[tuple[str, ...]]:
    first, second = a.amounts, b.amounts
    yield ("tokens", _count(first.loaded_tokens), _count(second.loaded_tokens))
    yield ("bytes, as the engine says", _bytes(first.loaded_bytes), _bytes(second.loaded_bytes))
    yield ("bytes over the bus", _bytes(first.bus_bytes), _bytes(second.bus_bytes))
    yield ("time on the device's clock", _duration(first.transfer_seconds), _duration(second.transfer_seconds))


def _count(value: int | None) -> str:
    return "not seen" if value is None else f"{value:,}"


def _bytes(value: int | None) -> str:
    return "not measured" if value is None else size(value)


def _duration(seconds: float | None) -> str:
    return "not measured" if seconds is None else f"{1000 * seconds:.2f} ms"


def _difference(row: Difference) -> tuple[str, ...]:
    return (row.name, told(row.a), told(row.b))
