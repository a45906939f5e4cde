"""What a run does beyond its four series, where it is asked to: ladders, and series E from storage."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, NamedTuple

from hicache_proof.lab import climb, guards, ladder, series
from hicache_proof.lab.backup import Backups
from hicache_proof.lab.client import EngineClient
from hicache_proof.lab.engine import Reading, window
from hicache_proof.lab.ladder import Ladder, Step
from hicache_proof.lab.options import Options
from hicache_proof.lab.plan import Plan
from hicache_proof.lab.preflight import Preflight
from hicache_proof.lab.prompts import Prompts
from hicache_proof.lab.series import Asked, Asker, Progress, Script

STORAGE_SECONDS = 30.0
"""Deadline for what L2 holds to reach L3: the copy to storage starts when the one to L2 has finished."""


class Bench(NamedTuple):
    asker: Asker
    prompts: Prompts
    plan: Plan
    progress: Progress


class Ladders(NamedTuple):
    """Empty: not asked for."""

    lengths: tuple[Step, ...]
    concurrency: tuple[Step, ...]


class OnRequest:
    """Raises CannotRunError, PreconditionError among them."""

    def __init__(
        self,
        engine: EngineClient,
        preflight: Preflight,
        backups: Callable[[], Backups],
        verify: Callable[[Backups, int, Plan, str], None],
        options: Options,
    ) -> None:
        self._engine = engine
        self._preflight = preflight
        self._backups = backups
        self._verify = verify
        self._options = options

    @property
    def emptied_by(self) -> Literal["flush", "load"]:
        """How L1 and L2 are emptied for E. A flush only where no prefetch can be on its way behind our back.

        SGLang stops its storage threads for a flush and ends itself if one takes more than ten seconds: the first
        prefetch of a process compiles its hash function for longer than that. Under wait_complete no request is
        answered before its prefetch has ended.
        """
        waits = self._engine.facts.prefetch_policy == "wait_complete"
        return "flush" if self._options.flush and waits else "load"

    def ladders(self, sized: Plan) -> Ladders:
        """Before anything is asked or flushed, so that a rung that does not fit costs nothing."""
        wanted = self._options
        if not (wanted.lengths or wanted.concurrency):
            return Ladders((), ())
        guards.evicts(sized)
        facts, reading = self._engine.facts, self._preflight.capacities()
        return Ladders(
            ladder.lengths(wanted.lengths, facts, reading, sized) if wanted.lengths else (),
            ladder.concurrency(wanted.concurrency, facts, reading, sized) if wanted.concurrency else (),
        )

    def plan(self, sized: Plan) -> Ladders:
        """The same, with its arithmetic among the checks."""
        ladders = self.ladders(sized)
        for name, steps in zip(("ladder", "concurrency"), ladders, strict=True):
            for line in self._arithmetic(steps, sized) if steps else ():
                self._preflight.note(name, "passed", line)
        return ladders

    def climb(self, bench: Bench, steps: tuple[Step, ...], *, by_length: bool) -> Ladder | None:
        if not steps:
            return None
        name = "ladder of lengths" if by_length else "ladder of concurrency"
        bench.progress.stage(name, 2 * len(steps) * bench.plan.repetitions)
        facts, backups = self._engine.facts, self._backups()

        def evict(stored: int) -> None:
            if facts.write_policy != "write_back":
                self._verify(backups, stored, bench.plan, name)
            self._fill(bench, bench.plan.fillers)

        climbed = climb.climb(steps, bench.asker, bench.prompts, bench.plan, facts.page_size, evict, bench.progress)
        return ladder.conclude(climbed, self._arithmetic(steps, bench.plan), by_length=by_length)

    def from_storage(self, bench: Bench, script: Script, before: Reading) -> tuple[Asked, ...]:
        """``before``: the counters when none of the prefixes had been asked."""
        bench.progress.stage("E: read from L3", bench.plan.repetitions)
        # L3 is written in the order of L2: the two prefixes of the warm-up come first
        self._verify_stored(before, bench.plan.prefix_tokens * (bench.plan.repetitions + 2))
        self._empty_both(bench)
        asked = []
        for repetition, subject in enumerate(script.subjects, 1):
            asked.append(series.from_storage(bench.asker, repetition, subject))
            bench.progress.step()
        return tuple(asked)

    def _verify_stored(self, before: Reading, expected: int) -> None:
        def written(now: Reading) -> float | None:
            return window(before, now).storage_backup_tokens

        last, _ = self._engine.until(lambda now: (written(now) or 0) >= expected, STORAGE_SECONDS)
        says = guards.stored(written(last), expected, self._engine.url)
        self._preflight.note("storage backup", "passed" if written(last) is not None else "warning", says)

    def _empty_both(self, bench: Bench) -> None:
        if self.emptied_by == "flush":
            self._preflight.empty()
            self._preflight.note("L2 emptied", "passed", "by a flush; storage keeps what it has")
            return
        self._fill(bench, bench.plan.storage_fillers)
        sent = bench.plan.storage_fillers * bench.plan.filler_tokens
        self._preflight.note("L2 emptied", "passed", f"by {sent:,} uncached tokens, more than L1 and L2 hold")

    def _fill(self, bench: Bench, fillers: int) -> None:
        for _ in range(fillers):
            bench.asker.fill(bench.prompts.fresh(bench.plan.filler_tokens))

    def _arithmetic(self, steps: tuple[Step, ...], sized: Plan) -> tuple[str, ...]:
        return ladder.arithmetic(steps, self._engine.facts.page_size, sized, self._preflight.capacities())
