"""Recorded rings through the sidecar's own reader, ledger and rules, at once and without waiting."""

from __future__ import annotations

import gzip
import time
from pathlib import Path

from hicache_exporter.core.engine_ledger import EngineLedger
from hicache_exporter.follower import LOOK_NS, Follower
from hicache_exporter.judging import Judging, Proof
from hicache_exporter.sources.ring_folder import RingFolder
from hicache_proof.verdict import judge
from hicache_tracing.records import HEADER

HERE = Path(__file__).parent


def replay(folder: Path, *names: str) -> tuple[EngineLedger, dict[str, Proof]]:
    """The ledger of the engine, and the last proof of each request, by request id."""
    folder.chmod(0o700)
    for name in names:
        data = gzip.decompress((HERE / f"{name}.ring.gz").read_bytes())
        *_, pid, _, created = HEADER.unpack_from(data)
        path = folder / f"{pid}-{created}.ring"
        path.write_bytes(data)
        path.chmod(0o600)
    follower = Follower(RingFolder(str(folder)), lambda identity: identity.address, 0)
    judging = Judging(judge, 0)
    now = time.monotonic_ns()
    for _ in range(200):
        now += LOOK_NS
        for _ in follower.steps(now):
            pass
        for engine in follower.engines.values():
            for case in engine.due(now + 3600 * 10**9):
                judging.hear(case)
    (engine,) = follower.engines.values()
    return engine, {proof.evidence.request_id: proof for proof in judging.recent()}
