"""Before the first series: is this the engine that can be experimented on, and how large will the experiment be?"""

from __future__ import annotations

from collections.abc import Callable
from urllib.parse import urlsplit

from msgspec.structs import replace

from hicache_proof.lab import guards, plan, replica, sizes, surroundings
from hicache_proof.lab.client import EngineClient
from hicache_proof.lab.engine import Reading
from hicache_proof.lab.errors import CannotRunError
from hicache_proof.lab.options import Options
from hicache_proof.lab.plan import Plan
from hicache_proof.lab.prompts import Prompts
from hicache_proof.lab.run import Check
from hicache_proof.lab.sidecar import NoProof, SidecarClient

IDLE_SECONDS = 5.0
QUIET_SECONDS = 3.0
"""Between two requests an engine is idle for an instant; before a flush nobody's may end for so long."""
FLUSH_SECONDS = 30.0
STILL_SECONDS = 1.0
"""Without a movement of the storage counters for so long, nothing is on its way to L3 or from it."""
STORAGE_SECONDS = 30.0
PROBE_TOKENS = 32


class Preflight:
    """Asks the engine for one small prompt, three with ``--flush``. Raises CannotRunError."""

    def __init__(
        self, engine: EngineClient, control: EngineClient | None, sidecar: SidecarClient, options: Options
    ) -> None:
        self._engine = engine
        self._control = control
        self._sidecar = sidecar
        self._options = options
        self.checks: list[Check] = []

    def preview(self) -> Plan:
        """The plan from the gauges as they are now, or as a flush would leave them. Asks the engine for no token."""
        self._refuse_unsuitable()
        self._refuse_busy()
        if self._options.flush:
            return self._sized(self._emptied(0), after_flush=True)
        return self._sized(self._engine.read())

    def run(self, prompts: Prompts, salt: str, further: Callable[[Plan], object]) -> Plan:
        """``further``: raises for a plan whose run can't go on. A flush is the last thing that can be refused."""
        self._refuse_unsuitable()
        if not self._options.without_recorder and self._sidecar.unreachable:
            raise CannotRunError(guards.no_sidecar(self._sidecar.unreachable, self._engine.url))
        self._refuse_busy()
        probe = prompts.fresh(max(PROBE_TOKENS, 2 * self._engine.facts.page_size + 1))
        if self._options.flush:
            self._flush(probe, salt, further)
        # An idle engine's gauges are those of its last request: one small prompt brings them up to date.
        answered = self._engine.generate(probe, 1, f"lab-{salt}-probe")
        if self._options.flush:
            self.note("flush", "passed", guards.flushed(answered, self._engine.facts.page_size))
        self.note("probe", "passed", f"a fresh prompt of {answered.prompt_tokens} tokens was answered")
        if not self._options.flush:
            self._look_for_recorder(answered.request_id)
        asked = len(probe)
        if self._engine.facts.dp_rank is not None:
            asked += self._look_for_replica(prompts, salt, self._engine.facts.dp_rank)
        sized = self._sized(self.capacities(asked))
        self._describe(sized)
        return sized

    def note(self, name: str, state: str, says: str) -> None:
        self.checks.append(Check(name=name, state=state, says=says))  # type: ignore[arg-type]

    def empty(self) -> None:
        """A flush ends SGLang's storage threads and gives them ten seconds, or the engine dies: none may be busy."""
        if self._engine.facts.storage_backend is not None:
            self._wait_for_storage()
        self._engine.flush(FLUSH_SECONDS)

    def _wait_for_storage(self) -> None:
        moved: tuple[float | None, float | None] | None = None
        moved_ns = 0

        def still(now: Reading) -> bool:
            nonlocal moved, moved_ns
            counted = (now.storage_backup_tokens, now.storage_prefetched_tokens)
            if counted != moved:
                moved, moved_ns = counted, now.at_ns
            return now.at_ns - moved_ns >= STILL_SECONDS * 1e9

        if not self._engine.until(still, STORAGE_SECONDS)[1]:
            raise CannotRunError(
                f"{self._engine.url} is still at work on its storage after {STORAGE_SECONDS:.0f} s, and a flush "
                "meanwhile can end the engine; wait until it is quiet, or leave --flush out"
            )

    def _refuse_unsuitable(self) -> None:
        guards.has_hicache(self._engine.facts)
        if self._options.storage:
            guards.has_storage(self._engine.facts)
        if self._control is not None:
            guards.is_control(self._control.facts)

    def _refuse_busy(self) -> None:
        reading = self._engine.until(guards.idle, IDLE_SECONDS)[0]
        if not self._options.allow_traffic:
            guards.quiet(reading, self._engine.url)
            if self._options.flush:
                reading = self._watched(reading)
        state = "passed" if guards.idle(reading) else "warning"
        self.note("other traffic", state, f"{reading.running or 0:.0f} running, {reading.queued or 0:.0f} queued")

    def _watched(self, before: Reading) -> Reading:
        """The engine after a moment in which nobody's request ended or is under way."""
        after = self._engine.until(lambda now: guards.finished(before, now) > 0, QUIET_SECONDS)[0]
        guards.undisturbed(before, after, self._engine.url)
        guards.quiet(after, self._engine.url)
        return after

    def _flush(self, probe: tuple[int, ...], salt: str, further: Callable[[Plan], object]) -> None:
        """The probe is put into the cache first, so that asking it again shows whether the cache was emptied.

        It also brings the gauges up to date and shows the recorder, so that whoever can't run loses no cache.
        """
        for turn in (1, 2):
            known = self._engine.generate(probe, 1, f"lab-{salt}-flush-{turn}")
        self._look_for_recorder(known.request_id)
        further(self._sized(self._emptied(sizes.up(len(probe) + 1, self._engine.facts.page_size))))
        if not known.cached_tokens:
            self.note(
                "flush", "warning", "the cache did not keep the probe, so it can't show that the flush emptied it"
            )
        self.empty()

    def _look_for_recorder(self, request_id: str) -> None:
        found = self._sidecar.proof(request_id, patient=False)
        if not isinstance(found, NoProof):
            self.note("recorder", "passed", f"the sidecar at {self._sidecar.url} saw the probe in the flight recorder")
        elif self._options.without_recorder:
            self.note("recorder", "warning", f"{found.why}: without the flight recorder nothing can be proven")
        else:
            engines = self._sidecar.engines()
            raise CannotRunError(guards.no_recorder(self._sidecar.url, self._engine.url, engines, found.why))

    def _look_for_replica(self, prompts: Prompts, salt: str, wanted: int) -> int:
        """As many probes as there are replicas: an engine that ignores the choice takes them in turn by default.

        Returns the tokens that were asked.
        """
        replicas = self._engine.facts.dp_size
        found = []
        for turn in range(replicas):
            reply = self._engine.generate(prompts.fresh(PROBE_TOKENS), 1, f"lab-{salt}-replica-{turn}")
            proof = self._sidecar.proof(reply.request_id, patient=False)
            replica.refuse_another(reply, proof, wanted)
            found.append(replica.served_by(reply, proof))
        told = found.count(wanted)
        pinned = f"every request goes to data-parallel rank {wanted} of {replicas} ({', '.join(self._engine.route)})"
        if told:
            self.note("replica", "passed", f"{pinned}; it served {told} of {replicas} probes and no other did")
        else:
            self.note("replica", "warning", f"{pinned}; not verified: neither replies nor a recorder tell who served")
        return replicas * PROBE_TOKENS

    def _sized(self, reading: Reading, *, after_flush: bool = False) -> Plan:
        return plan.make(
            self._engine.facts,
            reading,
            prefix_tokens=self._options.prefix_tokens,
            repetitions=self._options.repetitions,
            evict=self._options.evict,
            storage=self._options.storage,
            after_flush=after_flush,
        )

    def capacities(self, probe_tokens: int = PROBE_TOKENS) -> Reading:
        """SGLang 0.5.9 has no gauge of its host pool: the flight recorder knows its size, a flush makes it empty."""
        reading = self._engine.read()
        if reading.host_capacity is not None or not self._options.flush:
            return reading
        return self._emptied(probe_tokens)

    def _emptied(self, host_used: int) -> Reading:
        reading = self._engine.read()
        capacity = reading.host_capacity
        if capacity is None:
            capacity = self._sidecar.host_tokens(self._engine.url)
        return replace(reading, host_capacity=capacity, host_used=host_used)

    def _describe(self, sized: Plan) -> None:
        for line in sized.arithmetic:
            self.note("sizing", "passed", line)
        for line in sized.warnings:
            self.note("sizing", "warning", line)
        seen = surroundings.scrape(self._sidecar.metrics(), urlsplit(self._engine.url).netloc)
        self.checks.extend(surroundings.checks(self._engine.facts, sized, seen))
