"""From which prefix length on is an L2 read faster than computing? Pure.

A length counts as faster only if the whole interval of its ratio says so (stats.Effect): one median over another is no
finding. The estimate between two lengths is where the straight line between their savings crosses zero; its interval
comes from resampling the repetitions.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, NamedTuple

import msgspec
import numpy as np
from msgspec.structs import replace

from hicache_proof.stats import CONFIDENCE, Effect

_RESAMPLES = 2000
_SEED = 0  # the same values give the same interval


class Point(NamedTuple):
    """One prefix length: seconds to the first token, of each repetition."""

    tokens: int
    reads: Sequence[float]
    misses: Sequence[float]
    effect: Effect


class BreakEven(msgspec.Struct, frozen=True, kw_only=True):
    """``between``: at ``after`` tokens a read is not shown to be faster, at ``by`` and every longer one it is."""

    says: Literal["always", "between", "never", "unclear", "not_known"]
    sentence: str
    after: int | None = None
    by: int | None = None
    estimate: float | None = None
    low: float | None = None
    """Of the estimate; None: the interval reaches below the shortest length that was tried."""
    high: float | None = None
    """None: it reaches above the longest."""


def find(points: Sequence[Point]) -> BreakEven:
    """``points``: in the order of their lengths."""
    usable = [point for point in points if point.effect.says != "refused"]
    without = [point for point in points if point.effect.says == "refused"]
    found = _find(usable, "that gave a figure" if without else "tried")
    if not without:
        return found
    return replace(found, sentence=" ".join((found.sentence, *map(_no_figure, without))))


def _no_figure(point: Point) -> str:
    return f"No figure at {point.tokens:,} tokens: {point.effect.why}."


def _find(usable: Sequence[Point], which: str) -> BreakEven:
    """``which``: of the lengths these are, in words."""
    if not usable:
        return BreakEven(says="not_known", sentence="The break-even is not known: no length gave a figure.")
    faster = [point.effect.says == "faster" for point in usable]
    shortest, longest = usable[0].tokens, usable[-1].tokens
    if not any(faster):
        return BreakEven(
            says="never",
            sentence=f"Break-even not reached: at no length {which}, from {shortest:,} to {longest:,} tokens, was an "
            "L2 read shown to be faster than computing.",
        )
    if all(faster):
        return BreakEven(
            says="always",
            sentence=f"An L2 read is faster at every length {which}, from {shortest:,} tokens on: the break-even lies "
            "below.",
            by=shortest,
        )
    last = max(index for index, is_faster in enumerate(faster) if not is_faster)
    if last == len(usable) - 1:
        return BreakEven(
            says="unclear",
            sentence="Unclear: an L2 read is faster at some lengths, but was not shown to be at the longest, "
            f"{longest:,}.",
        )
    return _between(usable, last)


def _between(points: Sequence[Point], last: int) -> BreakEven:
    after, by = points[last].tokens, points[last + 1].tokens
    estimate = _crossing([p.tokens for p in points], [float(np.median(p.misses) - np.median(p.reads)) for p in points])
    low, high = _interval(points)
    sentence = f"Break-even between {after:,} and {by:,} tokens"
    if np.isfinite(estimate):
        ends = (
            f"{low:,.0f}" if np.isfinite(low) else f"below {points[0].tokens:,}",
            f"{high:,.0f}" if np.isfinite(high) else f"above {points[-1].tokens:,}",
        )
        sentence += f": estimate {estimate:,.0f}, {CONFIDENCE:.0%} interval {ends[0]} to {ends[1]}"
    return BreakEven(
        says="between",
        sentence=f"{sentence}; from {by:,} on an L2 read is faster.",
        after=after,
        by=by,
        estimate=_finite(estimate),
        low=_finite(low),
        high=_finite(high),
    )


def _crossing(lengths: Sequence[int], saved: Sequence[float]) -> float:
    """Where the savings turn positive for good; -inf: they are from the start; +inf: they never do."""
    behind = [index for index, seconds in enumerate(saved) if seconds <= 0]
    if not behind:
        return -np.inf
    last = behind[-1]
    if last == len(saved) - 1:
        return np.inf
    share = -saved[last] / (saved[last + 1] - saved[last])
    return lengths[last] + share * (lengths[last + 1] - lengths[last])


def _interval(points: Sequence[Point]) -> tuple[float, float]:
    rng = np.random.default_rng(_SEED)

    def resampled(values: Sequence[float]) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
        drawn = rng.choice(np.asarray(values), size=(_RESAMPLES, len(values)))
        return np.asarray(np.median(drawn, axis=1))

    saved = np.stack([resampled(point.misses) - resampled(point.reads) for point in points], axis=1)
    lengths = [point.tokens for point in points]
    crossings = sorted(_crossing(lengths, row) for row in saved.tolist())
    tail = int((1 - CONFIDENCE) / 2 * _RESAMPLES)
    return crossings[tail], crossings[-1 - tail]


def _finite(value: float) -> float | None:
    return float(value) if np.isfinite(value) else None
