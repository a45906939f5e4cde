"""One lab run, whole: what report.json holds and every other report is made from. Data only."""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from hicache_proof.evidence import Evidence
from hicache_proof.lab.answers import NOT_COMPARED, Answers
from hicache_proof.lab.engine import EngineFacts, Reading, Window
from hicache_proof.lab.ladder import Ladder
from hicache_proof.lab.plan import Plan
from hicache_proof.lab.reply import Reply
from hicache_proof.stats import Effect, Summary
from hicache_proof.verdict import Judgement

SCHEMA = "hicache-witness/lab-run/1"

Series = Literal["A", "B", "C", "D", "E", "marker", "miss"]
SERIES: dict[Series, str] = {
    "A": "cold: the prefix is new to the engine",
    "B": "the same prefix with another question: L1",
    "C": "B's prompt after L1 has been emptied: L2",
    "D": "C's prompt at once again: L1",
    "E": "B's prompt after L1 and L2 have been emptied: L3",
    "marker": "a prefix with planted markers, asked for before and after L1 has been emptied",
    "miss": "a new prefix in the same state of the engine as C: must be computed",
}
CONTROLS: dict[str, str] = {
    "hicache_off": "the same load on an engine without HiCache",
    "forced_miss": "a new prefix in place of C's, on the same engine",
}


class Measured(msgspec.Struct, frozen=True, kw_only=True):
    """One request of the experiment with all that was seen of it."""

    series: Series
    repetition: int
    turn: int = 1
    """B asks twice, and A's prompt again: they teach how much an answer differs without a read of L2."""
    reply: Reply
    window: Window
    exclusive: bool
    """The counters moved by this request alone."""
    evidence: Evidence
    judgement: Judgement
    events: tuple[dict[str, Any], ...] = ()
    admitted_at: str | None = None
    """RFC 3339, by the engine's machine."""
    recorder_says: str | None = None
    """Why the sidecar has nothing on this request; None if it has."""


class Check(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    state: Literal["passed", "failed", "warning"]
    says: str


class Memory(msgspec.Struct, frozen=True, kw_only=True):
    """One amount before and after; None where nobody reported it."""

    name: str
    unit: Literal["tokens", "bytes"]
    before: float | None
    after: float | None
    source: str


class Energy(msgspec.Struct, frozen=True, kw_only=True):
    """What one GPU took over the whole run, by NVML's counter."""

    gpu: str
    joules: float


class StorageRead(msgspec.Struct, frozen=True, kw_only=True):
    """The verdict on series E: was the prefix read from L3?

    ``claimed``: the engine's account says so and nobody watched.
    """

    verdict: Literal["storage", "storage_in_part", "claimed", "no_storage_read", "contradicted"]
    sentence: str
    policy: str | None
    emptied_by: Literal["flush", "load"]

    @property
    def shown(self) -> bool:
        return self.verdict in ("storage", "storage_in_part")


class Control(msgspec.Struct, frozen=True, kw_only=True):
    kind: Literal["hicache_off", "forced_miss"]
    engine: EngineFacts | None
    """None: the engine under test itself."""
    requests: tuple[Measured, ...]


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """The verdict of the run is that of series C, the weakest of its repetitions."""

    verdict: str
    content: str
    exit_code: Literal[0, 1]
    sentence: str
    deciding: str
    """Request id of the C request that decided."""


class LabRun(msgspec.Struct, frozen=True, kw_only=True):
    schema: str = SCHEMA
    started_at: str
    """RFC 3339, with offset."""
    seconds: float
    command: str
    versions: dict[str, str]
    salt: str
    engine: EngineFacts
    sidecar: str
    sidecar_missing: str | None
    plan: Plan
    requests: tuple[Measured, ...]
    control: Control | None
    ttft: dict[str, Summary]
    effect: Effect
    memory: tuple[Memory, ...]
    checks: tuple[Check, ...]
    outcome: Outcome
    before: Reading
    after: Reading
    answers: Answers = NOT_COMPARED
    whole: dict[str, Summary] = {}
    """From sending until the last token, by series as in ``ttft``; empty in a report of an earlier release."""
    storage: StorageRead | None = None
    """None: series E was not asked for."""
    lengths: Ladder | None = None
    concurrency: Ladder | None = None
    energy: tuple[Energy, ...] = ()
    """Empty: nobody measured it."""

    def of(self, series: Series) -> tuple[Measured, ...]:
        return tuple(request for request in self.requests if request.series == series)

    @property
    def deciding(self) -> Measured:
        return next(r for r in self.requests if r.reply.request_id == self.outcome.deciding)
