"""Real engines' recorded rings, read and judged by today's code: what the pages that show real facts are made of."""

from __future__ import annotations

import gzip
import json
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from hicache_exporter.judging import Proof
from hicache_tracing.records import IDENTITY_HEAD, IDENTITY_OFFSET

sys.path.append(str(Path(__file__).resolve().parents[2]))

from tests.exporter.recorded.replay import HERE, replay

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


@cache
def runs() -> tuple[Run, ...]:
    return tuple(_read())


def _read() -> Iterator[Run]:
    for rings in RUNS:
        with tempfile.TemporaryDirectory() as folder:
            _, proofs = replay(Path(folder), *rings)
        yield Run(rings, _identity(rings[0]), proofs)


def _identity(ring: str) -> dict[str, Any]:
    data = gzip.decompress((HERE / f"{ring}.ring.gz").read_bytes())
    size, _ = IDENTITY_HEAD.unpack_from(data, IDENTITY_OFFSET)
    told: dict[str, Any] = json.loads(data[IDENTITY_OFFSET + IDENTITY_HEAD.size :][:size])
    return told
