"""How many bytes crossed the bus between two moments, from a GPU's history of samples: the physical witness.

The two directions are read at different times, so each has samples, edges and a quiet rate of its own.
"""

from __future__ import annotations

from collections.abc import Iterable
from statistics import quantiles
from typing import NamedTuple

from hicache_exporter.core.pcie_meter import Gap, Sample

BASELINE_SPAN_NS = 10_000_000_000
MIN_BASELINE_GAPS = 3
TOO_EARLY = "no sample after the window yet"
TOO_LATE = "the window lies before the history"
WHY_NOT = {Gap.UNSAFE: "a counter may have wrapped unseen", Gap.BREAK: "the probe began anew in the window"}


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


class _Crossing(NamedTuple):
    """One direction: the bytes between its two samples around the window, and the worst gap between them."""

    start: Sample
    end: Sample
    worst: Gap
    quiet_rate: float | None

    @property
    def moved(self) -> int:
        return self.end.total - self.start.total

    @property
    def span_ns(self) -> int:
        return self.end.after_ns - self.start.before_ns


def window(tx: Iterable[Sample], rx: Iterable[Sample], t0_ns: int, t1_ns: int) -> BusWindow:
    """Bytes between ``t0_ns`` and ``t1_ns`` on CLOCK_MONOTONIC, from each direction's samples given newest first."""
    sent, received = _crossing(tx, t0_ns, t1_ns), _crossing(rx, t0_ns, t1_ns)
    if isinstance(sent, str) or isinstance(received, str):
        return BusWindow(False, TOO_EARLY if TOO_EARLY in (sent, received) else TOO_LATE)
    slack_ns = max(sent.span_ns, received.span_ns) - (t1_ns - t0_ns)
    if sent.end.total == 0 and received.end.total == 0:
        return BusWindow(False, "the counters have never moved", None, None, slack_ns)
    worst = max(sent.worst, received.worst)
    moved = BusBytes(sent.moved, received.moved)
    return BusWindow(worst not in WHY_NOT, WHY_NOT.get(worst), moved, _baseline(sent, received), slack_ns, not worst)


def _crossing(newest_first: Iterable[Sample], t0_ns: int, t1_ns: int) -> _Crossing | str:
    """The samples next to the window on both sides, or why there are none."""
    end: Sample | None = None
    worst = Gap.EXACT
    samples = iter(newest_first)
    for sample in samples:
        if sample.before_ns >= t1_ns:
            end, worst = sample, sample.gap
            continue
        if end is None:
            return TOO_EARLY
        if sample.after_ns <= t0_ns:
            return _Crossing(sample, end, worst, _quiet_rate(sample, samples))
        worst = max(worst, sample.gap)
    return TOO_EARLY if end is None else TOO_LATE


def _baseline(sent: _Crossing, received: _Crossing) -> BusBytes | None:
    if sent.quiet_rate is None or received.quiet_rate is None:
        return None
    return BusBytes(round(sent.quiet_rate * sent.span_ns), round(received.quiet_rate * received.span_ns))


def _quiet_rate(start: Sample, older: Iterable[Sample]) -> float | None:
    """Bytes per nanosecond, tenth percentile of the gaps before ``start``: what flows while nothing is transferred.

    Not the mean or the median: with one load-back after another they are the load-backs.
    """
    rates: list[float] = []
    newer = start
    for sample in older:
        if newer.gap in (Gap.EXACT, Gap.QUIET):
            rates.append((newer.total - sample.total) / (newer.before_ns - sample.before_ns))
        newer = sample
        if sample.before_ns < start.before_ns - BASELINE_SPAN_NS:
            break
    if len(rates) < MIN_BASELINE_GAPS:
        return None
    return quantiles(rates, n=10, method="inclusive")[0]
