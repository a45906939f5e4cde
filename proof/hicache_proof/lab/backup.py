"""Has the prefix reached L2? Until it is there, evicting it from L1 would lose it and prove nothing."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import NamedTuple

from hicache_proof.lab.client import PAUSE_SECONDS
from hicache_proof.lab.engine import EngineFacts, Reading, window
from hicache_proof.lab.errors import PreconditionError
from hicache_proof.lab.plan import Plan


class Count(NamedTuple):
    tokens: float | None
    """None: nobody counts."""
    source: str


class Backups:
    """Tokens backed up since this was made, by the first of three that counts them."""

    def __init__(self, read: Callable[[], Reading], recorded: Callable[[], float | None]) -> None:
        """``recorded``: tokens of finished backups by the flight recorder; asked only where the engine counts none."""
        self._read = read
        self._recorded = recorded
        self._start = read()
        self._recorded_start = recorded() if self._start.backup_tokens is None else None

    def wait(self, expected: int, seconds: float) -> Count:
        """The count as soon as it is as large as expected, or as it is at the deadline."""
        deadline = time.monotonic() + seconds
        while True:
            count = self.count()
            if count.tokens is None or count.tokens >= expected or time.monotonic() >= deadline:
                return count
            time.sleep(PAUSE_SECONDS)

    def count(self) -> Count:
        now = self._read()
        counted = window(self._start, now).backup_tokens
        if counted is not None:
            return Count(counted, "the engine's backup counter")
        recorded = self._recorded()
        if recorded is not None:
            return Count(recorded - (self._recorded_start or 0.0), "the flight recorder")
        if self._start.host_used is not None and now.host_used is not None:
            return Count(now.host_used - self._start.host_used, "growth of the host pool")
        return Count(None, "nobody")


def verify(count: Count, expected: int, facts: EngineFacts, plan: Plan) -> str:
    """What was verified, in words. Raises PreconditionError if fewer tokens than expected have reached L2."""
    if count.tokens is None:
        return "not verified: neither this engine nor a flight recorder counts backups"
    if count.tokens >= expected:
        return f"{count.tokens:,.0f} tokens backed up to L2, {expected:,} needed ({count.source})"
    raise PreconditionError(
        f"precondition failed: not backed up: {count.tokens:,.0f} of {expected:,} tokens reached L2 "
        f"({count.source}). {_likely_reason(facts, plan)}"
    )


def _likely_reason(facts: EngineFacts, plan: Plan) -> str:
    chunk = facts.chunked_prefill_tokens
    if chunk is not None and plan.prompt_tokens > chunk:
        return (
            f"Likely reason: the prompt of {plan.prompt_tokens:,} tokens is longer than the chunked prefill size of "
            f"{chunk:,}; take --prefix-tokens {chunk - plan.question_tokens - plan.output_tokens} or less."
        )
    if facts.write_policy == "write_through_selective":
        return "Likely reason: write_through_selective backs up only what is hit often enough; B hits twice."
    if facts.write_policy == "write_back":
        return "Likely reason: write_back backs a prefix up only when L1 evicts it, and it was dropped instead."
    return f"The write policy is {facts.write_policy}; is the host pool full, or does the engine's log show why?"
