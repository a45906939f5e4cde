"""The series themselves: which prompt is asked when, on one engine. Nothing is judged here.

For each repetition A asks a fresh prefix; B asks the same prefix with another question, twice, and A's prompt once
more. Then the eviction load empties L1. C asks B's prompt again (another question than the one that A cached the prefix
with), D repeats C, and a fresh prefix of the same shape shows what C would have cost without a read. E asks it a last
time, after L1 and L2 have been emptied.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import NamedTuple, Protocol

from hicache_proof.lab import replica
from hicache_proof.lab.client import EngineClient
from hicache_proof.lab.engine import Reading, Window, window
from hicache_proof.lab.markers import Planted
from hicache_proof.lab.plan import Plan
from hicache_proof.lab.prompts import Prompts
from hicache_proof.lab.reply import Reply
from hicache_proof.lab.run import Series
from hicache_proof.lab.sidecar import NoProof, Proof

COLD, BEFORE, AFTER = 0, 1, 2
"""Repetitions of series ``marker``: while the prefix is computed, from L1 right after that, after L1 was emptied."""
COLD_AGAIN = 3
"""Turn of B that repeats A's prompt: what an L1 run differs from a cold one."""
SETTLE_SECONDS = 10.0
"""Deadline for the engine's counters to show a request that has been answered."""


class Progress(Protocol):
    def stage(self, name: str, steps: int) -> None: ...
    def step(self) -> None: ...


class Witness(Protocol):
    def __call__(self, request_id: str, *, patient: bool) -> Proof | NoProof: ...


class Asked(NamedTuple):
    """A request and what the engine's counters did meanwhile."""

    series: Series
    repetition: int
    turn: int
    reply: Reply
    window: Window
    exclusive: bool
    proof: Proof | NoProof


class Subject(NamedTuple):
    """What one repetition asks: the same in every series, on the engine under test and on the control engine."""

    prefix: tuple[int, ...]
    opening: tuple[int, ...]
    question: tuple[int, ...]
    other_prefix: tuple[int, ...]

    @property
    def prompt(self) -> tuple[int, ...]:
        return self.prefix + self.question


class Script(NamedTuple):
    """Every prompt of a run. Drawn once, so that the control engine gets the very same load."""

    warm_up: Subject
    subjects: tuple[Subject, ...]
    fillers: tuple[tuple[int, ...], ...]


def draw(plan: Plan, prompts: Prompts, fillers: int) -> Script:
    """``fillers``: as many as the larger of the two engines needs."""

    def subject() -> Subject:
        opening = prompts.question(plan.question_tokens)
        return Subject(
            prefix=prompts.fresh(plan.prefix_tokens),
            opening=opening,
            question=prompts.question(plan.question_tokens, unlike=opening),
            other_prefix=prompts.fresh(plan.prefix_tokens),
        )

    return Script(
        warm_up=subject(),
        subjects=tuple(subject() for _ in range(plan.repetitions)),
        fillers=tuple(prompts.fresh(plan.filler_tokens) for _ in range(fillers)),
    )


class Asker:
    """Asks one prompt at a time, each in a window of its own on the engine's counters."""

    def __init__(self, engine: EngineClient, plan: Plan, name: str, witness: Witness) -> None:
        self._engine = engine
        self.plan = plan
        self._name = name
        self._witness = witness
        self._count = 0
        self._lock = threading.Lock()
        self.tokens_asked = 0

    def ask(self, series: Series, repetition: int, prompt: tuple[int, ...], turn: int = 1) -> Asked:
        before = self._engine.read()
        reply = self._send(prompt, self.plan.output_tokens, series)
        deltas = window(before, self._settled(before, reply))
        proof = self._witness(reply.request_id, patient=False)
        replica.refuse_another(reply, proof, self._engine.facts.dp_rank)
        return Asked(series, repetition, turn, reply, deltas, _alone(deltas, reply), proof)

    def completed(self, asked: Asked) -> Asked:
        """The same with the proof as it is after later requests: an old engine that idles does not say what it did."""
        if isinstance(asked.proof, Proof) and asked.proof.final:
            return asked
        return asked._replace(proof=self._witness(asked.reply.request_id, patient=True))

    def fill(self, prompt: tuple[int, ...]) -> None:
        self._send(prompt, 1, "load")

    def send(self, prompt: tuple[int, ...]) -> Reply:
        """One of several at once: no window of its own. Safe to call from several threads."""
        return self._send(prompt, self.plan.output_tokens, "ladder")

    def proof(self, reply: Reply) -> Proof | NoProof:
        return self._witness(reply.request_id, patient=False)

    def _send(self, prompt: tuple[int, ...], output_tokens: int, label: str) -> Reply:
        with self._lock:
            self._count += 1
            self.tokens_asked += len(prompt)
            request_id = f"{self._name}-{self._count:04d}-{label}"
        reply = self._engine.generate(prompt, output_tokens, request_id)
        replica.refuse_another(reply, None, self._engine.facts.dp_rank)
        return reply

    def _settled(self, before: Reading, reply: Reply) -> Reading:
        """The answer may be here before the counters have moved; a load-back is counted when it is acknowledged."""

        def moved(now: Reading) -> bool:
            deltas = window(before, now)
            return _reached(deltas.prompt_tokens, reply.prompt_tokens) and _reached(
                deltas.load_back_tokens, reply.host_tokens
            )

        return self._engine.until(moved, SETTLE_SECONDS)[0]


def warm_up(asker: Asker, script: Script, planted: Planted | None = None) -> tuple[Asked, ...]:
    """The shapes of A and B with prompts that no series uses: the first run of a shape pays for its set-up.

    Where markers are planted, theirs is the other prefix: computed with the question for the first of them, and asked
    for all of them at once, before anything can have pushed it out of L1. Those answers are returned.
    """
    subject = script.warm_up
    asker.ask("A", 0, subject.prefix + subject.opening)
    asker.ask("B", 0, subject.prompt)
    asker.ask("B", 0, subject.prompt, turn=2)
    if planted is None:
        asker.ask("miss", 0, subject.other_prefix + subject.question)
        return ()
    cold = markers(asker, COLD, planted._replace(markers=planted.markers[:1]))
    return (*cold, *markers(asker, BEFORE, planted))


def cold_and_warm(asker: Asker, repetition: int, subject: Subject) -> Iterator[Asked]:
    yield asker.ask("A", repetition, subject.prefix + subject.opening)
    yield asker.ask("B", repetition, subject.prompt)
    yield asker.ask("B", repetition, subject.prompt, turn=2)
    yield asker.ask("B", repetition, subject.prefix + subject.opening, turn=COLD_AGAIN)


def after_eviction(asker: Asker, repetition: int, subject: Subject) -> tuple[Asked, ...]:
    read = asker.ask("C", repetition, subject.prompt)
    again = asker.ask("D", repetition, subject.prompt)
    miss = asker.ask("miss", repetition, subject.other_prefix + subject.question)
    return asker.completed(read), again, miss


def from_storage(asker: Asker, repetition: int, subject: Subject) -> Asked:
    return asker.completed(asker.ask("E", repetition, subject.prompt))


def markers(asker: Asker, repetition: int, planted: Planted) -> tuple[Asked, ...]:
    """The first question reads the prefix from wherever it is; the others use the rows that it brought."""
    return tuple(
        asker.ask("marker", repetition, planted.prefix + marker.question, turn)
        for turn, marker in enumerate(planted.markers, 1)
    )


def _reached(moved: float | None, wanted: int | None) -> bool:
    """A counter that does not exist can't be waited for."""
    return moved is None or wanted is None or moved >= wanted


def _alone(deltas: Window, reply: Reply) -> bool:
    return deltas.requests == 1 and deltas.prompt_tokens == reply.prompt_tokens
