"""What each rank of a read claims to have moved, and what crossed the bus of its GPU. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from hicache_proof.lab.run import Measured
from hicache_proof.report import view
from hicache_proof.witnesses.physical import Crossing, by_rank

FIGURES = ("bytes claimed", "bytes over the bus", "ratio")
HEAD = ("read", "rank", *FIGURES, "")


class Bus(NamedTuple):
    """One rank of one read, in the columns of ``HEAD``."""

    read: str
    rank: str
    claimed: str
    crossed: str
    """Less what the bus carries anyway."""
    ratio: str
    says: str


def rows(reads: Iterable[Measured]) -> tuple[Bus, ...]:
    """Of reads on several ranks, where the bus of one at least was measured."""
    found: list[Bus] = []
    for read in reads:
        ranks = by_rank(read.evidence)
        if len(ranks) > 1 and any(seen is not None for _, seen in ranks):
            found.extend(_row(f"{read.series} {read.repetition}", rank, seen) for rank, seen in ranks)
    return tuple(found)


def _row(read: str, rank: str, seen: Crossing | None) -> Bus:
    if seen is None:
        return Bus(read, rank, view.DASH, view.DASH, view.DASH, "not measured")
    ratio = view.DASH if seen.ratio is None else f"{seen.ratio:.2f}"
    says = seen.state.says if seen.crossed is None else view.STANCES[seen.state.stance]
    return Bus(read, rank, view.number(seen.claimed), view.number(seen.crossed), ratio, says)
