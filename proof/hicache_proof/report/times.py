"""Time to first token and to the last one, series by series, with their intervals. Pure."""

from __future__ import annotations

from typing import NamedTuple

from hicache_proof.lab.run import LabRun
from hicache_proof.report import view
from hicache_proof.stats import P95_NEEDS, Summary


class Times(NamedTuple):
    series: str
    requests: str
    ttft: str
    ttft_p95: str
    whole: str
    whole_p95: str


def rows(run: LabRun) -> tuple[Times, ...]:
    return tuple(
        Times(name, f"{ttft.count}", _median(ttft), _p95(ttft), _median(run.whole.get(name)), _p95(run.whole.get(name)))
        for name, ttft in run.ttft.items()
    )


def _median(summary: Summary | None) -> str:
    if summary is None or summary.interval is None:
        return view.milliseconds(None if summary is None else summary.median)
    ends = (view.milliseconds(seconds) for seconds in (summary.interval.low, summary.interval.high))
    return f"{view.milliseconds(summary.median)} ({' to '.join(ends)})"


def _p95(summary: Summary | None) -> str:
    if summary is not None and summary.count < P95_NEEDS:
        return f"under {P95_NEEDS} requests"
    return view.milliseconds(None if summary is None else summary.p95)
