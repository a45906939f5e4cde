"""Carries a ladder out on an engine. Nothing is judged here but where each request was served from."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future
from typing import NamedTuple

from hicache_proof.lab.ladder import Batch, Climbed, Step
from hicache_proof.lab.plan import Plan
from hicache_proof.lab.prompts import Prompts
from hicache_proof.lab.reply import Reply
from hicache_proof.lab.sentences import PROVEN
from hicache_proof.lab.series import Asker, Progress
from hicache_proof.lab.sidecar import NoProof

Prompt = tuple[int, ...]


class _Load(NamedTuple):
    """One repetition of one rung: what is stored, what is read of it, what is computed instead."""

    step: Step
    stored: tuple[Prompt, ...]
    read: tuple[Prompt, ...]
    missed: tuple[Prompt, ...]
    shaped: tuple[Prompt, ...]
    """L1 hits of the reads' shape: the first run of a shape pays for its set-up."""


def climb(
    steps: Sequence[Step],
    asker: Asker,
    prompts: Prompts,
    plan: Plan,
    page: int,
    evict: Callable[[int], None],
    progress: Progress,
) -> tuple[Climbed, ...]:
    """``evict``: empties L1, once so many tokens have reached L2. Raises CannotRunError."""
    loads = [_draw(step, prompts, plan) for step in steps for _ in range(plan.repetitions)]
    for load in loads:
        _send(asker, load.stored)
        _send(asker, load.shaped)
        progress.step()
    evict(sum(load.step.prefix_tokens * load.step.at_once for load in loads))
    done: dict[Step, tuple[list[Batch], list[Batch]]] = {step: ([], []) for step in steps}
    for load in loads:
        reads, misses = done[load.step]
        reads.append(_batch(asker, load.read, load.step.prefix_tokens - page))
        misses.append(_batch(asker, load.missed, None))
        progress.step()
    return tuple(Climbed(step, tuple(reads), tuple(misses)) for step, (reads, misses) in done.items())


def _draw(step: Step, prompts: Prompts, plan: Plan) -> _Load:
    prefixes = [prompts.fresh(step.prefix_tokens) for _ in range(step.at_once)]
    others = [prompts.fresh(step.prefix_tokens) for _ in range(step.at_once)]

    def ended(heads: Iterable[Prompt]) -> tuple[Prompt, ...]:
        return tuple(head + prompts.question(plan.question_tokens) for head in heads)

    return _Load(step, ended(prefixes), ended(prefixes), ended(others), ended(prefixes))


class _Sending(threading.Thread):
    """A daemon: whoever interrupts the lab does not wait for answers, and with its connection the request ends."""

    def __init__(self, asker: Asker, prompt: Prompt) -> None:
        super().__init__(daemon=True)
        self.reply: Future[Reply] = Future()
        self._asker, self._prompt = asker, prompt
        self.start()

    def run(self) -> None:
        try:
            self.reply.set_result(self._asker.send(self._prompt))
        except Exception as error:  # noqa: BLE001 - raised to whoever waits
            self.reply.set_exception(error)


def _send(asker: Asker, prompts: Sequence[Prompt]) -> tuple[Reply, ...]:
    sent = [_Sending(asker, prompt) for prompt in prompts]
    return tuple(one.reply.result() for one in sent)


def _batch(asker: Asker, prompts: Sequence[Prompt], fewest_from_host: int | None) -> Batch:
    started = time.monotonic()
    replies = _send(asker, prompts)
    seconds = time.monotonic() - started
    read = [] if fewest_from_host is None else [r for r in replies if _from_host(asker, r) > fewest_from_host]
    return Batch(
        ttft=tuple(reply.ttft_seconds for reply in replies),
        seconds=seconds,
        prompt_tokens=sum(len(prompt) for prompt in prompts),
        from_host=len(read),
        proven=sum(_proven(asker, reply) for reply in read),
    )


def _from_host(asker: Asker, reply: Reply) -> int:
    """By the reply, or by the scheduler's account where the reply has no split. Nothing told is nothing read."""
    if reply.host_tokens is not None:
        return reply.host_tokens
    found = asker.proof(reply)
    account = None if isinstance(found, NoProof) else found.evidence.attribution
    return (account.host_tokens or 0) if account is not None else 0


def _proven(asker: Asker, reply: Reply) -> bool:
    found = asker.proof(reply)
    return not isinstance(found, NoProof) and found.judgement.verdict in PROVEN
