"""The experiment from preflight to the last series: thin, every decision is taken by a pure module beside it."""

from __future__ import annotations

from typing import Literal, NamedTuple

from hicache_proof.lab import backup, guards, marked, markers, plan, series
from hicache_proof.lab.backup import Backups
from hicache_proof.lab.client import EngineClient
from hicache_proof.lab.engine import Reading, window
from hicache_proof.lab.errors import CannotRunError
from hicache_proof.lab.ladder import Ladder
from hicache_proof.lab.markers import Planted
from hicache_proof.lab.on_request import Bench, OnRequest
from hicache_proof.lab.options import Options
from hicache_proof.lab.plan import Plan
from hicache_proof.lab.preflight import Preflight
from hicache_proof.lab.prompts import Prompts
from hicache_proof.lab.run import Check
from hicache_proof.lab.series import Asked, Asker, Progress, Script
from hicache_proof.lab.sidecar import NoProof, SidecarClient

BACKUP_SECONDS = 15.0


class Observed(NamedTuple):
    """What the series showed on the engine under test, and on the control engine if there is one."""

    plan: Plan
    asked: tuple[Asked, ...]
    control: tuple[Asked, ...]
    before: Reading
    after: Reading
    checks: tuple[Check, ...]
    planted: Planted | None
    why_not_planted: str
    lengths: Ladder | None
    concurrency: Ladder | None
    emptied_by: Literal["flush", "load"]


class Experiment:
    """One run. Raises CannotRunError (or one of its kinds) as soon as a precondition or a negative control fails."""

    def __init__(
        self, engine: EngineClient, control: EngineClient | None, sidecar: SidecarClient, options: Options
    ) -> None:
        self._engine = engine
        self._control = control
        self._sidecar = sidecar
        self._options = options
        self._preflight = Preflight(engine, control, sidecar, options)
        self._note = self._preflight.note
        self._on_request = OnRequest(engine, self._preflight, self._backups, self._verify_backup, options)

    def preview(self) -> tuple[Plan, tuple[Check, ...]]:
        """The plan and what stands around it. Asks the engine for no token."""
        sized = self._preflight.preview()
        self._control_plan(sized)
        self._on_request.plan(sized)
        return sized, tuple(self._preflight.checks)

    def run(self, prompts: Prompts, salt: str, progress: Progress) -> Observed:
        progress.stage("preflight", 1)
        sized = self._preflight.run(prompts, salt, self._refuse_unfit)
        ladders = self._on_request.plan(sized)
        control_plan = self._control_plan(sized)
        script = series.draw(sized, prompts, max(sized.fillers, control_plan.fillers if control_plan else 0))
        planted, why_not = self._planted(script.warm_up.other_prefix, salt)
        asker = Asker(self._engine, sized, f"lab-{salt}", self._sidecar.proof)
        before = self._engine.read()
        asked = self._series(asker, script, sized, planted, progress)
        bench = Bench(asker, prompts, sized, progress)
        lengths = self._on_request.climb(bench, ladders.lengths, by_length=True)
        concurrency = self._on_request.climb(bench, ladders.concurrency, by_length=False)
        if self._options.storage:
            asked += self._on_request.from_storage(bench, script, before)
        after = self._engine.read()
        self._look_for_others(before, after, asker)
        control: tuple[Asked, ...] = ()
        if self._control is not None and control_plan is not None:
            other = Asker(self._control, control_plan, f"lab-{salt}-control", _nobody)
            control = _control_series(other, script, planted, progress)
        return Observed(
            plan=sized,
            asked=asked,
            control=control,
            before=before,
            after=after,
            checks=tuple(self._preflight.checks),
            planted=planted,
            why_not_planted=why_not,
            lengths=lengths,
            concurrency=concurrency,
            emptied_by=self._on_request.emptied_by,
        )

    def _refuse_unfit(self, sized: Plan) -> None:
        self._on_request.ladders(sized)
        self._control_plan(sized)

    def _control_plan(self, sized: Plan) -> Plan | None:
        if self._control is None:
            return None
        return plan.for_control(sized, self._control.facts, self._control.read())

    def _planted(self, prefix: tuple[int, ...], salt: str) -> tuple[Planted | None, str]:
        try:
            planted = markers.plant(prefix, self._engine.tokens_of, salt)
        except CannotRunError:
            return None, marked.NOT_PLANTED
        return planted, marked.TOO_SHORT

    def _series(
        self, asker: Asker, script: Script, sized: Plan, planted: Planted | None, progress: Progress
    ) -> tuple[Asked, ...]:
        progress.stage("warm-up", 1)
        asked = list(series.warm_up(asker, script, planted))
        progress.step()
        backups = self._backups()
        asked += self._cold_and_warm(asker, script, sized, progress)
        if sized.fillers:
            self._evict(asker, script, sized, backups, progress)
        progress.stage("C, D: read back, then L1", sized.repetitions)
        for repetition, subject in enumerate(script.subjects, 1):
            asked.extend(series.after_eviction(asker, repetition, subject))
            progress.step()
        if planted is not None:
            asked.extend(series.markers(asker, series.AFTER, planted))
        return tuple(asked)

    def _cold_and_warm(self, asker: Asker, script: Script, sized: Plan, progress: Progress) -> list[Asked]:
        progress.stage("A, B: cold, then L1", sized.repetitions)
        asked: list[Asked] = []
        for repetition, subject in enumerate(script.subjects, 1):
            backups = self._backups()
            for one in series.cold_and_warm(asker, repetition, subject):
                guards.negative_control(one, sized, self._engine.facts.page_size)
                asked.append(one)
            if self._engine.facts.write_policy != "write_back":
                self._verify_backup(backups, sized.prefix_tokens, sized, f"prefix {repetition}")
            progress.step()
        self._note("A and B", "passed", f"{len(asked)} requests without a load-back; A cold, B served from L1")
        return asked

    def _evict(self, asker: Asker, script: Script, sized: Plan, backups: Backups, progress: Progress) -> None:
        progress.stage("eviction load", sized.fillers)
        before = self._engine.read()
        for prompt in script.fillers[: sized.fillers]:
            asker.fill(prompt)
            progress.step()
        evicted = window(before, self._engine.read()).evicted_tokens
        shown = "(no such counter)" if evicted is None else f"{evicted:,.0f}"
        self._note("eviction", "passed", f"{sized.eviction_tokens:,} uncached tokens sent; L1 evicted {shown}")
        if self._engine.facts.write_policy == "write_back":
            self._verify_backup(backups, sized.prefix_tokens * sized.repetitions, sized, "all prefixes")

    def _backups(self) -> Backups:
        return Backups(self._engine.read, lambda: self._sidecar.backed_up_tokens(self._engine.url))

    def _verify_backup(self, backups: Backups, expected: int, sized: Plan, what: str) -> None:
        count = backups.wait(expected, BACKUP_SECONDS)
        says = backup.verify(count, expected, self._engine.facts, sized)
        self._note("backup", "warning" if count.tokens is None else "passed", f"{what}: {says}")

    def _look_for_others(self, before: Reading, after: Reading, asker: Asker) -> None:
        deltas = window(before, after)
        others = (deltas.prompt_tokens or 0) - asker.tokens_asked
        if deltas.prompt_tokens is None:
            self._note("traffic", "warning", "prompt tokens are not counted, so other traffic goes unnoticed")
        elif others:
            self._note("traffic", "warning", f"others sent {others:,.0f} prompt tokens during the run")
        else:
            self._note("traffic", "passed", f"{asker.tokens_asked:,} prompt tokens, all ours")


def _control_series(asker: Asker, script: Script, planted: Planted | None, progress: Progress) -> tuple[Asked, ...]:
    progress.stage("control engine", len(script.subjects) + asker.plan.fillers)
    series.warm_up(asker, script, planted)
    asked: list[Asked] = []
    for repetition, subject in enumerate(script.subjects, 1):
        asked.extend(series.cold_and_warm(asker, repetition, subject))
    for prompt in script.fillers[: asker.plan.fillers]:
        asker.fill(prompt)
        progress.step()
    for repetition, subject in enumerate(script.subjects, 1):
        asked.extend(series.after_eviction(asker, repetition, subject))
        progress.step()
    return tuple(asked)


def _nobody(request_id: str, *, patient: bool) -> NoProof:
    return NoProof(why="nobody watches the control engine")
