"""What the flight recorders of an engine saw of its L3 being attached and detached: the one witness of every rank."""

from __future__ import annotations

from collections.abc import Iterator

from hicache_exporter.core.decoding import KIND, T_NS, named
from hicache_exporter.core.identity import parse_identity
from hicache_exporter.sources.process import is_alive
from hicache_exporter.sources.ring import Ring
from hicache_exporter.sources.ring_file import RingRefusedError
from hicache_exporter.sources.ring_folder import RingFolder
from hicache_proof.doctor.addresses import same_engine
from hicache_proof.storage.state import Rank
from hicache_tracing.records import Kind

WATCHED = "attach_storage_backend"


class NoRecorderError(Exception):
    """No living recorder of this engine here that watches its storage; says why."""


def ranks(path: str, engine: str, since_ns: int = 0) -> tuple[Rank, ...]:
    """The last switch of each rank since then (CLOCK_MONOTONIC). Raises NoRecorderError."""
    folder = RingFolder(path)
    folder.scan()
    try:
        found = sorted(_living(folder, engine), key=lambda one: one[0])
        if not found:
            raise NoRecorderError(str(folder.trouble or f"no recorder of {engine} in {folder.path}"))
        return tuple(_rank(name, ring, since_ns) for name, ring in found)
    except RingRefusedError as error:
        raise NoRecorderError(str(error)) from None
    finally:
        for ring in folder.rings.values():
            ring.close()


def _living(folder: RingFolder, engine: str) -> Iterator[tuple[str, Ring]]:
    known = [(identity, ring) for ring in folder.rings.values() if (identity := parse_identity(ring.identity))]
    address = same_engine(engine, sorted({identity.address for identity, _ in known}))
    for identity, ring in known:
        alive = not ring.closed_ns and is_alive(ring.header.pid, ring.header.created_ns)
        if identity.address == address and alive and _watches(ring):
            yield identity.rank, ring


def _watches(ring: Ring) -> bool:
    return any(seam.name.endswith(WATCHED) and seam.state == "attached" for seam in ring.seams())


def _rank(name: str, ring: Ring, since_ns: int) -> Rank:
    last, behind = None, 1
    while behind:
        read = ring.read()
        behind = read.behind
        last = next((r for r in reversed(read.rows) if r[KIND] == Kind.STORAGE_ATTACH and r[T_NS] >= since_ns), last)
    if last is None:
        return Rank(rank=name, attached=None, succeeded=None)
    told = named(last)
    return Rank(rank=name, attached=bool(told["attached"]), succeeded=bool(told["succeeded"]))
