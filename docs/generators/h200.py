"""The tables of the H200 report: the rings that were recorded there, read and judged by today's code."""

from __future__ import annotations

import gzip
import json
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hicache_exporter.judging import Proof
from hicache_tracing.records import IDENTITY_HEAD, IDENTITY_OFFSET

from .markdown import table

ROOT = Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT))

from tests.exporter.recorded.replay import HERE, replay  # noqa: E402  the reader lies beside the recordings

RUNS = (
    ("h200-0.5.16-hiradix",),
    ("h200-0.5.16-unified-direct",),
    ("h200-0.5.23-unified",),
    ("h200-0.5.23-one-row-damaged",),
    ("h200-0.5.16-tp2-rank0", "h200-0.5.16-tp2-rank1"),
    ("h200-0.5.16-tp2-damaged-rank0", "h200-0.5.16-tp2-damaged-rank1"),
)
PLANTED = "damaged"


@dataclass(frozen=True)
class Run:
    rings: tuple[str, ...]
    identity: dict[str, Any]
    proofs: dict[str, Proof]

    @property
    def name(self) -> str:
        """Engine, tree and way of copying."""
        who = self.identity
        ranks = f", TP {who['tp_size']}" if who["tp_size"] > 1 else ""
        return f"{who['engine_version']} {who['tree']}, {who['io_backend']}{ranks}"

    @property
    def planted(self) -> bool:
        return PLANTED in self.rings[0]

    def of(self, series: str) -> list[Proof]:
        """The requests of one series, oldest first."""
        found = [proof for name, proof in self.proofs.items() if series in name.split("-")[1:]]
        return sorted(found, key=lambda proof: proof.evidence.admitted_ns or 0)


def parts() -> dict[str, str]:
    """Name of a marked part of the page to what belongs there."""
    runs = list(_runs())
    return {"reads": reads(runs), "prefills": prefills(runs)}


def _runs() -> Iterator[Run]:
    for rings in RUNS:
        with tempfile.TemporaryDirectory() as folder:
            _, proofs = replay(Path(folder), *rings)
        yield Run(rings, _identity(rings[0]), proofs)


def _identity(ring: str) -> dict[str, Any]:
    data = gzip.decompress((HERE / f"{ring}.ring.gz").read_bytes())
    size, _ = IDENTITY_HEAD.unpack_from(data, IDENTITY_OFFSET)
    told: dict[str, Any] = json.loads(data[IDENTITY_OFFSET + IDENTITY_HEAD.size :][:size])
    return told


def reads(runs: list[Run]) -> str:
    """One line a read of L2: what the recorder saw, and the verdict."""
    head = ("SGLang", "tokens", "bytes, this rank", "device clock", "rate", "rows that differ", "verdict", "content")
    return table(head, [_read(run, proof) for run in runs for proof in run.of("C")])


def _read(run: Run, proof: Proof) -> tuple[str, ...]:
    evidence = proof.evidence
    (copy,) = evidence.transfers or ()
    seconds, content = copy.device_seconds, evidence.content
    if seconds is None or content is None:
        raise ValueError(f"{evidence.request_id}: no time or no content")
    differ = content.mismatched + sum(view.mismatched or 0 for view in evidence.ranks)
    return (
        run.name + (" **(one row damaged on purpose)**" if run.planted else ""),
        f"{copy.request_tokens or copy.tokens:,}",
        f"{copy.bytes:,}",
        f"{seconds * 1e3:.2f} ms",
        f"{copy.bytes / seconds / 1e9:.1f} GB/s",
        f"**{differ}**" if differ else "0",
        proof.judgement.verdict,
        proof.judgement.content,
    )


def prefills(runs: list[Run]) -> str:
    """From admission to the first token, as the scheduler saw it, one request each."""
    rows = []
    for run in runs:
        if len(run.rings) > 1 or run.planted:
            continue
        for cold, warm, back in zip(run.of("A"), run.of("B"), run.of("C"), strict=True):
            length = cold.evidence.request_id.rpartition("-")[2]
            rows.append((run.name, f"{int(length):,}", *(_milliseconds(proof) for proof in (cold, warm, back))))
    return table(("SGLang", "prefix", "A: computed", "B: from L1", "C: from L2"), rows)


def _milliseconds(proof: Proof) -> str:
    first, admitted = proof.evidence.first_token_ns, proof.evidence.admitted_ns
    if first is None or admitted is None:
        return "not seen"
    return f"{(first - admitted) / 1e6:,.0f} ms"
