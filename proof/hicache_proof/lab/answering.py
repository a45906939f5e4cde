"""Which answer is held against which. Pure.

B repeats A's prompt from L1, and its own: what those differ by sets the tolerance. C, D and E asked what B asked; B's
second run had the same split of cached and computed tokens.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from statistics import median

from msgspec.structs import replace

from hicache_proof.evidence import Answer
from hicache_proof.lab import answers, marked
from hicache_proof.lab.answers import Acceptance, Answers, Comparison
from hicache_proof.lab.markers import Planted
from hicache_proof.lab.reply import Reply
from hicache_proof.lab.run import Series
from hicache_proof.lab.series import AFTER, BEFORE, COLD_AGAIN, Asked

Pair = tuple[Reply, Reply]
_AFTER_A_READ: tuple[Series, ...] = ("C", "D", "E")


class Answering:
    """The answers of one run."""

    def __init__(self, asked: Sequence[Asked], planted: Planted | None) -> None:
        self._asked = asked
        self._planted = planted
        self._cold = self._pairs("A", 1, "B", COLD_AGAIN)
        self._warm = self._pairs("B", 1, "B", 2)
        self.tolerance = answers.tolerance([*self._cold, *self._warm])

    def answer(self, one: Asked) -> Answer | None:
        """What the evidence of that request gets; None: its answer is held against nothing."""
        reference = self._reference(one)
        found = answers.compare(reference.reply, one.reply, self.tolerance) if reference else None
        if one.series != "marker" or found is None:
            return found
        planted, recalled = marked.of(one, self._asked, self._planted)
        return replace(found, markers_planted=planted, markers_recalled=recalled)

    def summary(self, why_not_planted: str) -> Answers:
        after = [(name, self._pairs("B", 2, name, 1)) for name in _AFTER_A_READ]
        named = [("B to A", self._cold), ("B to B", self._warm), *((f"{name} to B", pairs) for name, pairs in after)]
        return Answers(
            tolerance=self.tolerance,
            comparisons=tuple(self._compared(name, pairs) for name, pairs in named if pairs),
            markers=marked.conclude(self._asked, self._planted, why_not_planted),
            acceptance=self._acceptance(),
        )

    def _compared(self, name: str, pairs: Sequence[Pair]) -> Comparison:
        return answers.summarise(name, pairs, self.tolerance)

    def _reference(self, one: Asked) -> Asked | None:
        if one.series in _AFTER_A_READ:
            return same(self._asked, "B", one.repetition, turn=2)
        if one.series == "marker" and one.repetition == AFTER:
            return same(self._asked, "marker", BEFORE, turn=one.turn)
        return None

    def _pairs(self, series: Series, turn: int, other_series: Series, other_turn: int) -> list[Pair]:
        found = []
        for one in self._asked:
            if (one.series, one.turn) == (series, turn):
                other = same(self._asked, other_series, one.repetition, other_turn)
                if other is not None:
                    found.append((one.reply, other.reply))
        return found

    def _acceptance(self) -> Acceptance | None:
        before, after = (
            [
                one.reply.accepted_tokens
                for one in self._asked
                if one.series == name and one.reply.accepted_tokens is not None
            ]
            for name in ("B", "C")
        )
        return Acceptance(before=median(before), after=median(after)) if before and after else None


def same(asked: Iterable[Asked], series: Series, repetition: int, turn: int = 1) -> Asked | None:
    wanted = (series, repetition, turn)
    return next((one for one in asked if (one.series, one.repetition, one.turn) == wanted), None)
