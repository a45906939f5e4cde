"""A whole lab run: connect, carry the experiment out, judge it."""

from __future__ import annotations

import platform
import random
import secrets
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import NamedTuple

from hicache_proof.direct_http import bearer, direct_client
from hicache_proof.lab import machine, storage
from hicache_proof.lab.client import EngineClient
from hicache_proof.lab.conclude import Judged, conclude
from hicache_proof.lab.engine import redacted
from hicache_proof.lab.options import Options
from hicache_proof.lab.plan import Plan
from hicache_proof.lab.prompts import Prompts, sample_text, vocabulary
from hicache_proof.lab.protocol import Experiment, Observed
from hicache_proof.lab.run import Check, LabRun, Measured, StorageRead
from hicache_proof.lab.series import Progress
from hicache_proof.lab.sidecar import SidecarClient

ANSWER_SECONDS = 600.0
"""A cold prefill of a long prompt on a busy engine takes its time; a dead engine closes the connection."""


class Target(NamedTuple):
    engine: str
    control: str | None
    sidecar: str
    api_key_file: Path | None = None
    admin_key_file: Path | None = None
    token_ids: tuple[int, int] | None = None
    """Range to draw prompts from (both ends included), for an engine that has no tokenizer."""
    dp_rank: int | None = None
    """The data-parallel replica to ask, on both engines; None: the first."""


@contextmanager
def connected(target: Target, options: Options) -> Iterator[Lab]:
    """A lab whose connections are closed when the block ends: an answer that is still coming is aborted by that.

    Raises CannotRunError if an engine does not answer.
    """
    patience = {"answer_seconds": ANSWER_SECONDS, "connect_seconds": 10.0}
    with direct_client(target.api_key_file, **patience) as engines, direct_client(None, **patience) as http:
        engine = EngineClient(target.engine, engines, bearer(target.admin_key_file), target.dp_rank)
        control = EngineClient(target.control, engines, dp_rank=target.dp_rank) if target.control else None
        yield Lab(target, options, engine, control, SidecarClient(target.sidecar, http))


class Lab:
    """One run on engines that answer."""

    def __init__(
        self,
        target: Target,
        options: Options,
        engine: EngineClient,
        control: EngineClient | None,
        sidecar: SidecarClient,
    ) -> None:
        self._target = target
        self._engine = engine
        self._control = control
        self._sidecar = sidecar
        self._experiment = Experiment(engine, control, sidecar, options)

    @property
    def sidecar_missing(self) -> str | None:
        return self._sidecar.unreachable

    def preview(self) -> tuple[Plan, tuple[Check, ...]]:
        return self._experiment.preview()

    def run(self, progress: Progress, command: str) -> LabRun:
        """Raises CannotRunError."""
        started, clock = datetime.now(UTC).astimezone(), time.monotonic()
        salt = secrets.token_hex(4)
        prompts = Prompts(self._vocabulary(salt), salt)
        metrics_before = self._sidecar.metrics()
        observed = self._experiment.run(prompts, salt, progress)
        metrics_after = self._sidecar.metrics()
        judged = self._judge(observed)
        from_storage = self._storage(judged.requests, observed)
        return LabRun(
            started_at=started.isoformat(timespec="seconds"),
            seconds=time.monotonic() - clock,
            command=redacted(command),
            versions=_versions(self._engine.facts.version, machine.gpu_driver(metrics_before)),
            salt=salt,
            engine=self._engine.facts,
            sidecar=self._target.sidecar,
            sidecar_missing=self._sidecar.gone(),
            plan=observed.plan,
            requests=judged.requests,
            control=judged.control,
            ttft=judged.ttft,
            whole=judged.whole,
            effect=judged.effect,
            memory=machine.compare(
                observed.before, observed.after, metrics_before, metrics_after, judged.requests[0].evidence.engine
            ),
            checks=observed.checks,
            outcome=storage.combined(judged.outcome, from_storage),
            before=observed.before,
            after=observed.after,
            answers=judged.answers,
            storage=from_storage,
            lengths=observed.lengths,
            concurrency=observed.concurrency,
            energy=machine.energy(metrics_before, metrics_after),
        )

    def _judge(self, observed: Observed) -> Judged:
        return conclude(
            observed.asked,
            observed.control,
            self._engine.facts,
            self._control.facts if self._control else None,
            observed.planted,
            observed.why_not_planted,
        )

    def _storage(self, requests: Sequence[Measured], observed: Observed) -> StorageRead | None:
        reads = [request for request in requests if request.series == "E"]
        if not reads:
            return None
        return storage.conclude(reads, self._engine.facts, observed.plan.prefix_tokens, observed.emptied_by)

    def _vocabulary(self, salt: str) -> tuple[int, ...]:
        if self._target.token_ids is not None:
            first, last = self._target.token_ids
            return vocabulary(range(first, last + 1))
        return vocabulary(self._engine.tokens_of(sample_text(random.Random(salt))))


def _versions(engine: str | None, driver: str | None) -> dict[str, str]:
    versions = {
        "hicache-witness": version("hicache-witness"),
        "SGLang": engine or "not given",
        "Python": platform.python_version(),
        "platform": platform.platform(),
    }
    return versions if driver is None else versions | {"GPU driver": driver}
