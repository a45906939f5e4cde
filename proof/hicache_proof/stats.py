"""Figures over repetitions: what may be said about a handful of timings, and what may not.

Times are seconds. Nothing here knows which request a value came from.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal

import msgspec
import numpy as np
from scipy import stats

CONFIDENCE = 0.95
P95_NEEDS = 20
"""Under twenty values the 95th percentile is just the largest one under another name."""
COLD_SPREAD_LIMIT = 0.5
"""A's repetitions may differ by half of their median; beyond it a speed-up figure would be read off noise."""
MINIMUM_EFFECT = 0.10
"""A difference under a tenth of the baseline is called no difference, whatever its interval says."""

_RESAMPLES = 9999
_SEED = 0  # the same values give the same interval


class Interval(msgspec.Struct, frozen=True, kw_only=True):
    low: float
    high: float
    confidence: float = CONFIDENCE


class Summary(msgspec.Struct, frozen=True, kw_only=True):
    count: int
    median: float
    smallest: float
    largest: float
    p95: float | None
    """None under P95_NEEDS values."""
    interval: Interval | None
    """Bootstrap interval of the median; None for a single value."""

    @property
    def spread(self) -> float:
        """Distance between the extremes, as a share of the median."""
        return (self.largest - self.smallest) / self.median if self.median else 0.0


class Effect(msgspec.Struct, frozen=True, kw_only=True):
    """How the read compares with computing the same prefix."""

    baseline: str
    says: Literal["faster", "slower", "no_difference", "refused"]
    why: str
    saved_seconds: float | None = None
    ratio: float | None = None
    """Baseline's median over the read's median: above 1 the read is faster."""
    ratio_interval: Interval | None = None
    minimum: float = MINIMUM_EFFECT


def summarise(values: Sequence[float]) -> Summary | None:
    """None for no values: an empty series has no median."""
    if not values:
        return None
    ordered = sorted(values)
    return Summary(
        count=len(ordered),
        median=float(np.median(ordered)),
        smallest=ordered[0],
        largest=ordered[-1],
        p95=float(np.percentile(ordered, 95)) if len(ordered) >= P95_NEEDS else None,
        interval=_bootstrap((ordered,), lambda x, axis: np.median(x, axis=axis)) if len(ordered) > 1 else None,
    )


def compare(
    reads: Sequence[float], baseline: Sequence[float], cold: Sequence[float], name: str, cold_name: str = "series A"
) -> Effect:
    """The effect of reading instead of computing, or why no figure is given.

    ``reads``: TTFT of the L2 reads; ``baseline``: TTFT of the same load without one, called ``name``;
    ``cold``: TTFT of series A, or of what ``cold_name`` says, whose agreement tells whether this machine was quiet
    enough to measure on.
    """
    refusal = _refusal(reads, baseline, summarise(cold), cold_name)
    if refusal:
        return Effect(baseline=name, says="refused", why=refusal)
    ratio = float(np.median(baseline) / np.median(reads))
    interval = _bootstrap(
        (baseline, reads), lambda base, read, axis: np.median(base, axis=axis) / np.median(read, axis=axis)
    )
    says, why = _classify(ratio, interval)
    return Effect(
        baseline=name,
        says=says,
        why=why,
        saved_seconds=float(np.median(baseline) - np.median(reads)),
        ratio=ratio,
        ratio_interval=interval,
    )


def _refusal(reads: Sequence[float], baseline: Sequence[float], cold: Summary | None, cold_name: str) -> str | None:
    if len(reads) < 2 or len(baseline) < 2:
        return "fewer than two repetitions to compare"
    if cold is None or cold.count < 2:
        return f"{cold_name} has fewer than two repetitions, so nobody knows how quiet the machine was"
    if cold.spread > COLD_SPREAD_LIMIT:
        return (
            f"the repetitions of {cold_name} differ by {cold.spread:.0%} of their median "
            f"(limit {COLD_SPREAD_LIMIT:.0%}): the machine was not quiet enough for a figure"
        )
    return None


def _classify(ratio: float, interval: Interval) -> tuple[Literal["faster", "slower", "no_difference"], str]:
    if interval.low > 1 and ratio - 1 >= MINIMUM_EFFECT:
        return "faster", "the whole interval lies above 1"
    if interval.high < 1 and 1 - ratio >= MINIMUM_EFFECT:
        return "slower", "the whole interval lies below 1"
    if interval.low <= 1 <= interval.high:
        return "no_difference", "the interval includes 1"
    return "no_difference", f"the difference is under the stated minimum of {MINIMUM_EFFECT:.0%}"


def _bootstrap(samples: tuple[Sequence[float], ...], statistic: Callable[..., object]) -> Interval:
    result = stats.bootstrap(
        samples,
        statistic,
        n_resamples=_RESAMPLES,
        confidence_level=CONFIDENCE,
        method="percentile",  # the bias-corrected one is undefined for a handful of equal values
        paired=False,
        vectorized=True,
        rng=np.random.default_rng(_SEED),
    )
    interval = result.confidence_interval
    return Interval(low=float(interval.low), high=float(interval.high))
