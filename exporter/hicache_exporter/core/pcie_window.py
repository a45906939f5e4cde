"""How many bytes crossed the bus between two moments, from a GPU's history of samples: the physical witness."""

from __future__ import annotations

from collections.abc import Iterable
from statistics import quantiles
from typing import NamedTuple

from hicache_exporter.core.pcie_meter import Gap, Sample

BASELINE_SPAN_NS = 10_000_000_000
MIN_BASELINE_GAPS = 3
TOO_EARLY = "no sample after the window yet"


class BusBytes(NamedTuple):
    tx: int
    rx: int


class BusWindow(NamedTuple):
    """``moved`` covers the window and up to ``slack_ns`` around it (the samples never fall on its edges).

    ``baseline`` is what the same span would have shown at the quiet rate of the ten seconds before; None: too few
    samples for a rate. ``usable`` False: ``why_not`` says why, ``moved`` is then None or a lower bound. ``exact``
    False although usable: the sampler rested in the window, and traffic that no engine recorded may have wrapped.
    """

    usable: bool
    why_not: str | None
    moved: BusBytes | None = None
    baseline: BusBytes | None = None
    slack_ns: int | None = None
    exact: bool = False


def window(newest_first: Iterable[Sample], t0_ns: int, t1_ns: int) -> BusWindow:
    """Bytes between ``t0_ns`` and ``t1_ns`` on CLOCK_MONOTONIC, from samples given newest first."""
    end: Sample | None = None
    worst = Gap.EXACT
    samples = iter(newest_first)
    for sample in samples:
        if sample.before_ns >= t1_ns:
            end, worst = sample, sample.gap
            continue
        if end is None:
            return BusWindow(False, TOO_EARLY)
        if sample.after_ns <= t0_ns:
            return _between(sample, end, worst, _quiet_rate(sample, samples), t1_ns - t0_ns)
        worst = max(worst, sample.gap)
    return BusWindow(False, TOO_EARLY if end is None else "the window lies before the history")


def _between(start: Sample, end: Sample, worst: Gap, rate: tuple[float, float] | None, length_ns: int) -> BusWindow:
    span_ns = end.after_ns - start.before_ns
    baseline = None if rate is None else BusBytes(round(rate[0] * span_ns), round(rate[1] * span_ns))
    why_not = {Gap.UNSAFE: "a counter may have wrapped unseen", Gap.BREAK: "the probe began anew in the window"}
    moved = BusBytes(end.tx - start.tx, end.rx - start.rx)
    if end.tx == 0 and end.rx == 0:
        return BusWindow(False, "the counters have never moved", None, None, span_ns - length_ns)
    slack_ns = span_ns - length_ns
    return BusWindow(worst not in why_not, why_not.get(worst), moved, baseline, slack_ns, worst is Gap.EXACT)


def _quiet_rate(start: Sample, older: Iterable[Sample]) -> tuple[float, float] | None:
    """Bytes per nanosecond, tenth percentile of the gaps before ``start``: what flows while nothing is transferred.

    Not the mean or the median: with one load-back after another they are the load-backs.
    """
    rates: list[tuple[float, float]] = []
    newer = start
    for sample in older:
        if newer.gap in (Gap.EXACT, Gap.QUIET):
            span_ns = newer.before_ns - sample.before_ns
            rates.append(((newer.tx - sample.tx) / span_ns, (newer.rx - sample.rx) / span_ns))
        newer = sample
        if sample.before_ns < start.before_ns - BASELINE_SPAN_NS:
            break
    if len(rates) < MIN_BASELINE_GAPS:
        return None
    return _low(tx for tx, _ in rates), _low(rx for _, rx in rates)


def _low(rates: Iterable[float]) -> float:
    return quantiles(rates, n=10, method="inclusive")[0]
