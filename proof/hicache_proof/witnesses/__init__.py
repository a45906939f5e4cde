"""One witness a file: a pure function from the evidence to what it says about "this request read L2"."""

from __future__ import annotations

from collections.abc import Callable

from hicache_proof.evidence import Evidence
from hicache_proof.witnesses import (
    answer,
    attribution,
    content,
    control,
    counters,
    load_back,
    lookup,
    physical,
    provenance,
    ranks,
    residency,
    transfer,
)
from hicache_proof.witnesses.state import WitnessState

Witness = Callable[[Evidence], WitnessState]

WITNESSES: dict[str, Witness] = {
    lookup.NAME: lookup.testify,
    load_back.NAME: load_back.testify,
    residency.NAME: residency.testify,
    provenance.NAME: provenance.testify,
    transfer.NAME: transfer.testify,
    attribution.SCHEDULER: attribution.testify_scheduler,
    attribution.REPLY: attribution.testify_reply,
    counters.NAME: counters.testify,
    physical.NAME: physical.testify,
    content.NAME: content.testify,
    answer.NAME: answer.testify,
    control.NAME: control.testify,
    ranks.NAME: ranks.testify,
}


def hear_all(evidence: Evidence) -> tuple[WitnessState, ...]:
    return tuple(witness(evidence) for witness in WITNESSES.values())
