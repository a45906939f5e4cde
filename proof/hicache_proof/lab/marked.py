"""What became of the planted markers. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from hicache_proof.lab.answers import Markers, Told
from hicache_proof.lab.markers import Planted, recalled
from hicache_proof.lab.series import AFTER, BEFORE, COLD, Asked

NOT_PLANTED = "not used: the engine has no tokenizer that would give their tokens"
TOO_SHORT = "not used: the prefix is too short to plant them in"


def conclude(asked: Sequence[Asked], planted: Planted | None, why_not: str) -> Markers:
    if planted is None:
        return Markers(planted=0, followed=0, recalled=0, says=why_not)
    count, told = len(planted.markers), _told(asked, planted)
    followed = _recalled(asked, planted, BEFORE)
    if not followed:
        says = f"not used: this model does not follow ({count} planted, none recalled even before the eviction)"
        return Markers(planted=count, followed=0, recalled=0, says=says, told=told)
    kept = followed & _recalled(asked, planted, AFTER)
    depths = ", ".join(f"{planted.markers[index].depth:.0%}" for index in sorted(followed))
    says = f"{len(followed)} of {count} recalled before the eviction (at {depths} of the prefix), after it {len(kept)}"
    lost = len(followed) - len(kept)
    says = f"{says}: {lost} of {len(followed)} failed"
    return Markers(planted=count, followed=len(followed), recalled=len(kept), says=says, told=told)


def of(one: Asked, asked: Sequence[Asked], planted: Planted | None) -> tuple[int, int]:
    """Planted and recalled, for the evidence of one request after the eviction; a marker not followed counts not."""
    if planted is None or one.repetition != AFTER or one.turn - 1 not in _recalled(asked, planted, BEFORE):
        return 0, 0
    return 1, int(recalled(one.reply.text, planted.markers[one.turn - 1].code))


def _recalled(asked: Sequence[Asked], planted: Planted, repetition: int) -> set[int]:
    """Indices of the markers that came back in the answers of that repetition."""
    answers = _answers(asked, repetition)
    return {index for index, one in enumerate(planted.markers) if recalled(answers.get(index), one.code)}


def _told(asked: Sequence[Asked], planted: Planted) -> tuple[Told, ...]:
    cold, before, after = (_answers(asked, repetition) for repetition in (COLD, BEFORE, AFTER))
    return tuple(
        Told(depth=one.depth, code=one.code, cold=cold.get(index), before=before.get(index), after=after.get(index))
        for index, one in enumerate(planted.markers)
    )


def _answers(asked: Sequence[Asked], repetition: int) -> dict[int, str | None]:
    """Text by index of the marker."""
    return {one.turn - 1: one.reply.text for one in asked if (one.series, one.repetition) == ("marker", repetition)}
