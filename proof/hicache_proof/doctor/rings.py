"""Without a sidecar: what the flight recorders of an engine say of themselves, read from the ring folder."""

from __future__ import annotations

from collections.abc import Iterator

from hicache_exporter.core.identity import Identity, parse_identity
from hicache_exporter.sources.process import is_alive
from hicache_exporter.sources.ring import Ring
from hicache_exporter.sources.ring_file import RingRefusedError
from hicache_exporter.sources.ring_folder import RingFolder
from hicache_proof.chain.facts import Process, Recorded
from hicache_proof.doctor.addresses import same_engine
from hicache_proof.doctor.processes import process


class NoRecorderError(Exception):
    """No recorder of this engine in the folder; says why."""


def recorders(path: str, engine: str, ranks_expected: int | None) -> Recorded:
    """The state of the recorders, without any count: those take a sidecar. Raises NoRecorderError."""
    folder = RingFolder(path)
    folder.scan()
    try:
        known = list(_known(folder))
        address = same_engine(engine, sorted({identity.address for identity, _ in known}))
        found = [_process(identity, ring) for identity, ring in known if identity.address == address]
    finally:
        for ring in folder.rings.values():
            ring.close()
    if not found:
        raise NoRecorderError(_why(folder, engine))
    return Recorded(since="the recorder started", processes=tuple(found), ranks_expected=ranks_expected)


def _known(folder: RingFolder) -> Iterator[tuple[Identity, Ring]]:
    for ring in folder.rings.values():
        identity = parse_identity(ring.identity)
        if identity is not None:
            yield identity, ring


def _process(identity: Identity, ring: Ring) -> Process:
    try:
        seams = ring.seams()
    except RingRefusedError:
        seams = []
    running = not ring.closed_ns and is_alive(ring.header.pid, ring.header.created_ns)
    states = {seam.name: seam.state for seam in seams}
    return process(identity.rank, running=running, states=states, fired={seam.name for seam in seams if seam.fired})


def _why(folder: RingFolder, engine: str) -> str:
    if folder.trouble is not None:
        return str(folder.trouble)
    if folder.rings:
        return f"none of the {len(folder.rings)} recorders in {folder.path} is of {engine}"
    return f"no recorder in {folder.path}"
