"""Words and rows of the two ladders, shared by all reports. Pure."""

from __future__ import annotations

from typing import NamedTuple

from hicache_proof.lab.ladder import Ladder, Rung
from hicache_proof.lab.run import LabRun
from hicache_proof.report import view


class LadderRow(NamedTuple):
    rung: str
    from_host: str
    read: str
    miss: str
    says: str
    read_rate: str
    miss_rate: str


def sentences(run: LabRun) -> tuple[str, ...]:
    """One line a ladder; none where none was asked for."""
    found = []
    if run.lengths is not None and run.lengths.break_even is not None:
        found.append(run.lengths.break_even.sentence)
    if run.concurrency is not None:
        found.extend(_at_once(rung) for rung in run.concurrency.rungs)
    return tuple(found)


def rows(ladder: Ladder) -> tuple[LadderRow, ...]:
    at_once = any(rung.at_once > 1 for rung in ladder.rungs)
    return tuple(
        LadderRow(
            rung=f"{rung.at_once} at once" if at_once else f"{rung.prefix_tokens:,}",
            from_host=f"{rung.from_host} of {rung.requests}, {rung.proven} proven",
            read=view.milliseconds(rung.read.median),
            miss=view.milliseconds(rung.miss.median),
            says=effect(rung),
            read_rate=f"{rung.read_tokens_per_second:,.0f} tokens/s, {rung.read_requests_per_second:.1f} requests/s",
            miss_rate=f"{rung.miss_tokens_per_second:,.0f} tokens/s, {rung.miss_requests_per_second:.1f} requests/s",
        )
        for rung in ladder.rungs
    )


def effect(rung: Rung) -> str:
    """The ratio of the two, or why there is none."""
    found = rung.effect
    if found.ratio is None or found.ratio_interval is None:
        return f"no figure: {found.why}"
    word = {"faster": "faster", "slower": "slower", "no_difference": "no difference shown", "refused": ""}[found.says]
    return f"{found.ratio:.2f} ({found.ratio_interval.low:.2f} to {found.ratio_interval.high:.2f}): {word}"


def _at_once(rung: Rung) -> str:
    return (
        f"{rung.at_once} at once: TTFT {view.milliseconds(rung.read.median)} read from L2, "
        f"{view.milliseconds(rung.miss.median)} computed (ratio {effect(rung)}); "
        f"{rung.read_tokens_per_second:,.0f} against {rung.miss_tokens_per_second:,.0f} prompt tokens a second"
    )
