"""Rungs of a ladder: the same comparison, an L2 read against computing, at several lengths or several at once. Pure.

Each rung stores fresh prefixes; one eviction load empties L1 for all of them; then each prefix is asked for again with
a new question, and as many fresh prefixes of the same length show what computing costs.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import msgspec
import numpy as np

from hicache_proof import break_even, stats
from hicache_proof.break_even import BreakEven, Point
from hicache_proof.lab import sizes
from hicache_proof.lab.engine import EngineFacts, Reading
from hicache_proof.lab.errors import CannotRunError
from hicache_proof.lab.plan import Plan
from hicache_proof.stats import Effect, Summary

BASELINE = "computing fresh prefixes of the same length (a forced miss)"


class Step(NamedTuple):
    """One rung as planned."""

    prefix_tokens: int
    at_once: int


class Batch(NamedTuple):
    """Requests sent at the same time, and how long until the last of them was answered."""

    ttft: tuple[float, ...]
    seconds: float
    prompt_tokens: int
    from_host: int
    """Requests that were served from L2: their prefix, less than a page missing."""
    proven: int
    """Of those, by the verdict."""


class Climbed(NamedTuple):
    step: Step
    reads: tuple[Batch, ...]
    misses: tuple[Batch, ...]


class Rung(msgspec.Struct, frozen=True, kw_only=True):
    """``effect`` compares medians of batches; throughput is prompt tokens answered a second, medians of batches."""

    prefix_tokens: int
    at_once: int
    requests: int
    from_host: int
    proven: int
    read: Summary
    miss: Summary
    effect: Effect
    read_tokens_per_second: float
    miss_tokens_per_second: float
    read_requests_per_second: float
    miss_requests_per_second: float


class Ladder(msgspec.Struct, frozen=True, kw_only=True):
    rungs: tuple[Rung, ...]
    arithmetic: tuple[str, ...]
    break_even: BreakEven | None = None
    """Only of a ladder of lengths."""


def lengths(wanted: Sequence[int], facts: EngineFacts, reading: Reading, plan: Plan) -> tuple[Step, ...]:
    """Raises CannotRunError for a length that this engine can't hold."""
    page, device = facts.page_size, int(reading.device_capacity or 0)
    shortest, longest = sizes.fewest(page), sizes.longest_for_context(facts, device) - plan.question_tokens
    for tokens in wanted:
        if not shortest <= tokens <= longest:
            raise CannotRunError(
                f"--ladder: a prefix of {tokens:,} tokens does not fit: this engine takes {shortest:,} to "
                f"{sizes.down(longest, page):,} (pages of {page}, half of L1, its context)"
            )
    steps = tuple(Step(tokens, 1) for tokens in sorted({sizes.down(tokens, page) for tokens in wanted}))
    _refuse_too_much("--ladder", steps, facts, reading, plan)
    return steps


def concurrency(wanted: Sequence[int], facts: EngineFacts, reading: Reading, plan: Plan) -> tuple[Step, ...]:
    """All rungs have one length: the run's own, or what half of L1 and the room in L2 leave for so many at once."""
    page, levels = facts.page_size, sorted(set(wanted))
    device, beside = int(reading.device_capacity or 0), sizes.beside_prefix(page)
    together = device // 2 // levels[-1] - beside
    stored = _room(reading, plan) // (2 * plan.repetitions * sum(levels)) - beside
    prefix = sizes.down(min(plan.prefix_tokens, together, stored), page)
    if prefix < sizes.fewest(page):
        raise CannotRunError(
            f"--concurrency: {levels[-1]} prompts at once leave a prefix of {max(prefix, 0)} tokens each in half of L1 "
            f"({device // 2:,} tokens) and in L2, and {sizes.fewest(page)} are needed; take fewer at once"
        )
    steps = tuple(Step(prefix, level) for level in levels)
    _refuse_too_much("--concurrency", steps, facts, reading, plan)
    return steps


def written(steps: Sequence[Step], page: int, plan: Plan) -> int:
    """Tokens that the rungs and one eviction load write to L2."""
    prompts = sum(step.at_once * (step.prefix_tokens + sizes.beside_prefix(page)) for step in steps)
    return 2 * plan.repetitions * prompts + plan.eviction_tokens


def arithmetic(steps: Sequence[Step], page: int, plan: Plan, reading: Reading) -> tuple[str, ...]:
    rungs = ", ".join(f"{step.prefix_tokens:,}" + (f" x {step.at_once}" if step.at_once > 1 else "") for step in steps)
    return (
        f"rungs (prefix tokens x requests at once): {rungs}; each {plan.repetitions} times, read and computed",
        f"written to L2 at most: {written(steps, page, plan):,} of the {int(reading.host_capacity or 0):,} that it "
        "holds; the oldest of what was there may leave it",
    )


def conclude(climbed: Sequence[Climbed], lines: tuple[str, ...], *, by_length: bool) -> Ladder:
    rungs = tuple(_rung(one) for one in climbed)
    points = [
        Point(one.step.prefix_tokens, _medians(one.reads), _medians(one.misses), rung.effect)
        for one, rung in zip(climbed, rungs, strict=True)
    ]
    return Ladder(rungs=rungs, arithmetic=lines, break_even=break_even.find(points) if by_length else None)


def _rung(climbed: Climbed) -> Rung:
    reads, misses = climbed.reads, climbed.misses
    read, miss = stats.summarise(_all(reads)), stats.summarise(_all(misses))
    assert read is not None, "a rung without a repetition"
    assert miss is not None, "a rung without a repetition"
    requests, from_host = len(_all(reads)), sum(batch.from_host for batch in reads)
    effect = stats.compare(_medians(reads), _medians(misses), _medians(misses), BASELINE, "the computed prefixes")
    if from_host < requests:
        why = f"only {from_host} of {requests} requests were served from L2"
        effect = Effect(baseline=BASELINE, says="refused", why=why)
    return Rung(
        prefix_tokens=climbed.step.prefix_tokens,
        at_once=climbed.step.at_once,
        requests=requests,
        from_host=from_host,
        proven=sum(batch.proven for batch in reads),
        read=read,
        miss=miss,
        effect=effect,
        read_tokens_per_second=_rate(reads, [batch.prompt_tokens for batch in reads]),
        miss_tokens_per_second=_rate(misses, [batch.prompt_tokens for batch in misses]),
        read_requests_per_second=_rate(reads, [len(batch.ttft) for batch in reads]),
        miss_requests_per_second=_rate(misses, [len(batch.ttft) for batch in misses]),
    )


def _all(batches: Sequence[Batch]) -> list[float]:
    return [seconds for batch in batches for seconds in batch.ttft]


def _medians(batches: Sequence[Batch]) -> list[float]:
    return [float(np.median(batch.ttft)) for batch in batches]


def _rate(batches: Sequence[Batch], amounts: Sequence[int]) -> float:
    return float(np.median([amount / batch.seconds for batch, amount in zip(batches, amounts, strict=True)]))


def _room(reading: Reading, plan: Plan) -> int:
    return int(sizes.SAFE_SHARE * int(reading.host_capacity or 0)) - plan.eviction_tokens


def _refuse_too_much(option: str, steps: Sequence[Step], facts: EngineFacts, reading: Reading, plan: Plan) -> None:
    wanted, room = written(steps, facts.page_size, plan), _room(reading, plan) + plan.eviction_tokens
    if wanted > room:
        raise CannotRunError(
            f"{option}: the rungs and their eviction load write up to {wanted:,} tokens to L2, and it holds "
            f"{int(reading.host_capacity or 0):,}: the first would be gone before they are read; take fewer or shorter "
            "rungs, or fewer --repetitions"
        )
