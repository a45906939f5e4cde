"""What two results have in common, where they differ, and whether the second is worse. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import msgspec

from hicache_proof import stats
from hicache_proof.compare.side import Side, Value, told
from hicache_proof.stats import Effect, Summary

BEST_TO_WORST = ("corroborated", "proven", "consistent", "not_observed", "no_read", "contradicted")
"""Seen from outside the engine; seen inside; not refuted; not seen; seen that it was not read; witnesses disagree."""


class Difference(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    a: Value
    b: Value


class Times(msgspec.Struct, frozen=True, kw_only=True):
    """Time to the first token of one series. None: this side has no such series."""

    series: str
    a: Summary | None
    b: Summary | None
    change: Effect | None
    """B against A as the baseline; None: not comparable."""


class Comparison(msgspec.Struct, frozen=True, kw_only=True):
    a: Side
    b: Side
    worse: bool
    """B's verdict stands lower, or its content is damaged and A's is not."""
    sentence: str
    incomparable: tuple[str, ...]
    """Why the times can't be held against each other; empty: they can."""
    doubts: tuple[str, ...]
    """Files that do not hold. What they state proves nothing, so nothing follows from the comparison."""
    times: tuple[Times, ...]
    versions: tuple[Difference, ...]
    configuration: tuple[Difference, ...]


def compare(a: Side, b: Side) -> Comparison:
    incomparable = tuple(_incomparable(a, b))
    worse = _worse(a, b)
    doubtful = {name: side.doubt for name, side in (("A", a), ("B", b)) if side.doubt is not None}
    return Comparison(
        a=a,
        b=b,
        worse=worse,
        sentence=_sentence(a, b, worse, tuple(doubtful)),
        incomparable=incomparable,
        doubts=tuple(f"{name}: {doubt}" for name, doubt in doubtful.items()),
        times=tuple(_times(a, b, comparable=not incomparable)),
        versions=tuple(_differences(a.versions, b.versions)),
        configuration=tuple(_differences({**a.load, **a.configuration}, {**b.load, **b.configuration})),
    )


def _worse(a: Side, b: Side) -> bool:
    damaged = b.content == "damaged" and a.content != "damaged"
    return damaged or _place(b.verdict) > _place(a.verdict)


def _place(verdict: str) -> int:
    """A verdict that is not known here, of a newer release, is taken for the worst."""
    return BEST_TO_WORST.index(verdict) if verdict in BEST_TO_WORST else len(BEST_TO_WORST)


def _sentence(a: Side, b: Side, worse: bool, doubtful: tuple[str, ...]) -> str:
    sides = f"A {a.verdict} (content {a.content}), B {b.verdict} (content {b.content})"
    if doubtful:
        fails = "does not hold" if len(doubtful) == 1 else "do not hold"
        return f"{' and '.join(doubtful)} {fails}, so which is worse can't be said; the files state: {sides}"
    if worse:
        return f"B is worse: {sides}"
    return f"B is no worse: {sides}" if _place(a.verdict) == _place(b.verdict) else f"B is better: {sides}"


def _incomparable(a: Side, b: Side) -> Iterator[str]:
    for name, side in (("A", a), ("B", b)):
        if not side.times:
            yield f"{name} is a {side.kind}, and has no series of times"
    for difference in _differences({**a.load, **a.machine}, {**b.load, **b.machine}):
        if difference.name in a.load or difference.name in a.machine:
            yield f"A and B differ in {difference.name}: {told(difference.a)} against {told(difference.b)}"


def _times(a: Side, b: Side, *, comparable: bool) -> Iterator[Times]:
    for series in dict.fromkeys((*a.times, *b.times)):
        first, second = a.times.get(series, ()), b.times.get(series, ())
        change = None
        if comparable and first and second:
            change = stats.compare(second, first, _less_quiet(a, b), "A", "series A of the less quiet run")
        yield Times(series=series, a=stats.summarise(first), b=stats.summarise(second), change=change)


def _less_quiet(a: Side, b: Side) -> tuple[float, ...]:
    """The cold requests of the run in which they differ more: how quiet the machine was is told by them."""
    cold = [side.times.get("A", ()) for side in (a, b)]
    spreads = [summary.spread if (summary := stats.summarise(times)) else float("inf") for times in cold]
    return cold[spreads.index(max(spreads))]


def _differences(a: Mapping[str, Value], b: Mapping[str, Value]) -> Iterator[Difference]:
    """Values that are not known on one side are no difference to be found; a side that has none at all is silent."""
    for name in dict.fromkeys((*a, *b)):
        if name in a and name in b and a[name] != b[name]:
            yield Difference(name=name, a=a[name], b=b[name])
