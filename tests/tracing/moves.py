"""Questions to the ring about KV that moved, and the little scene that most of them are about."""

from __future__ import annotations

from hicache_tracing.records import Direction, Kind, Record, unpack_pairs, unpack_runs

from .engines import Engine

PROMPT = list(range(300))
LONGER = [*PROMPT, 7]
OTHER = list(range(1000, 1300))


def runs(record: Record) -> list[tuple[int, int]]:
    return unpack_runs(record.extra, record.named()["runs"])


def pairs(record: Record) -> list[tuple[int, int]]:
    return unpack_pairs(record.extra, record.named()["operations"])


def transfers(engine: Engine, direction: Direction) -> tuple[list[Record], list[Record]]:
    """(TRANSFER, TRANSFER_DONE) records of one direction."""
    ring = engine.ring()
    return tuple(
        [record for record in ring.of(kind) if record.named()["direction"] == direction]
        for kind in (Kind.TRANSFER, Kind.TRANSFER_DONE)
    )


def evict_then_ask_again(engine: Engine) -> None:
    engine.serve("first", PROMPT)
    engine.scheduler.evict(300)
    engine.serve("again", LONGER)
