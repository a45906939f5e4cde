"""Thresholds that several panels share, each with what it means to be past it."""

from __future__ import annotations

from hicache_dashboards.boards.model import State, Step
from hicache_dashboards.palette import BAD, GOOD, NEUTRAL, WARN

BELOW = float("-inf")
UP_DOWN = (State(1, "up", GOOD), State(0, "down", BAD))
UP_DOWN_STEPS = (Step(BELOW, BAD, "down"), Step(1, GOOD, "up"))


def none_is_good(meaning: str) -> tuple[Step, ...]:
    """For counts of what must not happen."""
    return (Step(BELOW, GOOD, "none"), Step(1, BAD, meaning))


def enough(limit: float, meaning: str) -> tuple[Step, ...]:
    """For what has to reach a limit."""
    return (Step(BELOW, BAD, f"under {limit:g}: {meaning}"), Step(limit, GOOD, "as it should be"))


def plain() -> tuple[Step, ...]:
    return (Step(BELOW, NEUTRAL, "a measure, with no good or bad"),)


def headroom(least: float, meaning: str) -> tuple[Step, ...]:
    return (
        Step(BELOW, BAD, f"under {least:g}: {meaning}"),
        Step(least, WARN, "getting tight"),
        Step(2 * least, GOOD, "room enough"),
    )
