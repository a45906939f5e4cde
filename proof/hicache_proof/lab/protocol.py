"""The experiment from preflight to the last series: thin, every decision is taken by a pure module beside it."""

from __future__ import annotations

from typing import NamedTuple

from msgspec.structs import replace

from hicache_proof.lab import backup, guards, plan, series
from hicache_proof.lab.backup import Backups
from hicache_proof.lab.client import EngineClient
from hicache_proof.lab.engine import Reading, window
from hicache_proof.lab.plan import Plan
from hicache_proof.lab.prompts import Prompts
from hicache_proof.lab.run import Check
from hicache_proof.lab.series import Asked, Asker, Progress, Script
from hicache_proof.lab.sidecar import NoProof, SidecarClient

IDLE_SECONDS = 5.0
BACKUP_SECONDS = 15.0
FLUSH_SECONDS = 30.0
PROBE_TOKENS = 32


class Options(NamedTuple):
    prefix_tokens: int | None
    repetitions: int
    evict: bool = True
    flush: bool = False
    allow_traffic: bool = False


class Observed(NamedTuple):
    """What the series showed on the engine under test, and on the control engine if there is one."""

    plan: Plan
    asked: tuple[Asked, ...]
    control: tuple[Asked, ...]
    before: Reading
    after: Reading
    checks: tuple[Check, ...]


class Experiment:
    """One run. Raises CannotRunError (or one of its kinds) as soon as a precondition or a negative control fails."""

    def __init__(
        self, engine: EngineClient, control: EngineClient | None, sidecar: SidecarClient, options: Options
    ) -> None:
        self._engine = engine
        self._control = control
        self._sidecar = sidecar
        self._options = options
        self._checks: list[Check] = []

    def preview(self) -> Plan:
        """The plan from the gauges as they are now. Asks the engine for no token."""
        self._refuse_unsuitable()
        return self._sized()

    def run(self, prompts: Prompts, salt: str, progress: Progress) -> Observed:
        progress.stage("preflight", 1)
        sized = self._preflight(prompts, salt)
        control_plan = self._control_plan(sized)
        script = series.draw(sized, prompts, max(sized.fillers, control_plan.fillers if control_plan else 0))
        asker = Asker(self._engine, sized, f"lab-{salt}", self._sidecar.proof)
        before = self._engine.read()
        asked = self._series(asker, script, sized, progress)
        after = self._engine.read()
        self._look_for_others(before, after, asker)
        control: tuple[Asked, ...] = ()
        if self._control is not None and control_plan is not None:
            other = Asker(self._control, control_plan, f"lab-{salt}-control", _nobody)
            control = _control_series(other, script, progress)
        return Observed(sized, asked, control, before, after, tuple(self._checks))

    def _refuse_unsuitable(self) -> None:
        guards.supported(self._engine.facts)
        if self._control is not None:
            guards.supported(self._control.facts)
            guards.is_control(self._control.facts)
        if not self._options.allow_traffic:
            guards.quiet(self._engine.until(guards.idle, IDLE_SECONDS)[0], self._engine.url)

    def _preflight(self, prompts: Prompts, salt: str) -> Plan:
        self._refuse_unsuitable()
        if self._options.flush:
            self._engine.flush(FLUSH_SECONDS)
        # An idle engine's gauges are those of its last request: one small prompt brings them up to date.
        probe = self._engine.generate(prompts.fresh(PROBE_TOKENS), 1, f"lab-{salt}-probe")
        self._note("probe", "passed", f"a fresh prompt of {probe.prompt_tokens} tokens was answered")
        sized = self._sized()
        if self._options.flush:
            self._note("flush", "passed", "the cache was emptied")
        for line in sized.arithmetic:
            self._note("sizing", "passed", line)
        for line in sized.warnings:
            self._note("sizing", "warning", line)
        return sized

    def _sized(self) -> Plan:
        return plan.make(
            self._engine.facts,
            self._capacities(),
            prefix_tokens=self._options.prefix_tokens,
            repetitions=self._options.repetitions,
            evict=self._options.evict,
        )

    def _capacities(self) -> Reading:
        """SGLang 0.5.9 has no gauge of its host pool: the flight recorder knows its size, a flush makes it empty."""
        reading = self._engine.read()
        if reading.host_capacity is not None or not self._options.flush:
            return reading
        return replace(reading, host_capacity=self._sidecar.host_tokens(self._engine.url), host_used=PROBE_TOKENS)

    def _control_plan(self, sized: Plan) -> Plan | None:
        if self._control is None:
            return None
        return plan.for_control(sized, self._control.facts, self._control.read())

    def _series(self, asker: Asker, script: Script, sized: Plan, progress: Progress) -> tuple[Asked, ...]:
        progress.stage("warm-up", 1)
        series.warm_up(asker, script)
        progress.step()
        backups = self._backups()
        asked = self._cold_and_warm(asker, script, sized, progress)
        if sized.fillers:
            self._evict(asker, script, sized, backups, progress)
        progress.stage("C, D: read back, then L1", sized.repetitions)
        for repetition, subject in enumerate(script.subjects, 1):
            asked.extend(series.after_eviction(asker, repetition, subject))
            progress.step()
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

    def _note(self, name: str, state: str, says: str) -> None:
        self._checks.append(Check(name=name, state=state, says=says))  # type: ignore[arg-type]


def _control_series(asker: Asker, script: Script, progress: Progress) -> tuple[Asked, ...]:
    progress.stage("control engine", len(script.subjects) + asker.plan.fillers)
    series.warm_up(asker, script)
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
