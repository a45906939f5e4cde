"""A flush while copies are under way: an engine that drops them never tells of their end. No fact goes with them, and
none that was true before is taken for true afterwards.
"""

from __future__ import annotations

import os
from pathlib import Path

import httpx
import pytest

from hicache_proof.demo.engine import Engine
from hicache_proof.demo.releases import NEWEST
from hicache_proof.demo.sidecar import Sidecar
from hicache_tracing.records import Direction, Kind

from ..tracing.ring import Ring, read
from .driver import Answer, ask, distance, evict, flush, prompt
from .test_facts import OLDEST, Session, admitted_once_as_the_engine_says, read_what_a_backup_wrote, settled

pytestmark = [pytest.mark.engine, pytest.mark.matrix]


def ring_of(engine: Engine) -> Ring:
    (path,) = engine.rings.glob("*.ring")
    return read(path)


def a_read_cut_off(engine: Engine, hold: Path) -> tuple[Answer, Answer, bool]:
    """A computed, then read back from L2, and a flush before the engine hears that the copies have ended: the answers,
    and whether it did flush.
    """
    flush(engine)
    cold = ask(engine, prompt("cut off"), request_id="cut-A")
    evict(engine, "cut off")
    ask(engine, prompt("collects what is finished", 20), tokens=2)
    hold.touch()
    try:
        from_l2 = ask(engine, prompt("cut off"), request_id="cut-C")
        ask(engine, prompt("backed up meanwhile"), request_id="cut-D")
        flushed = httpx.post(f"{engine.url}/flush_cache", timeout=30, trust_env=False).is_success
    finally:
        hold.unlink()
    return cold, from_l2, flushed


@pytest.mark.parametrize(("version", "drops"), [(OLDEST, True), ("0.5.16", False), (NEWEST, False)])
def test_a_flush_in_the_middle_of_copies(engines, faulty, tmp_path: Path, version: str, drops: bool) -> None:
    """Newer releases refuse it; older ones drop what is under way."""
    hold = tmp_path / "hold"
    engine = engines(faulty(hold=str(hold), version=version))
    before = len(ring_of(engine).of(Kind.RESET))
    cold, from_l2, flushed = a_read_cut_off(engine, hold)
    assert (from_l2.by_tier["host"], from_l2.tokens) == (299, cold.tokens)
    assert flushed is drops
    resets = ring_of(engine).of(Kind.RESET)[before:]
    if drops:
        dropped(ring_of(engine))
    else:
        ask(engine, prompt("collects what was held", 20), tokens=2)
        flush(engine)
        assert [record.named() for record in ring_of(engine).of(Kind.RESET)[before:]][1:] == [
            {"open_loads": 0, "open_backups": 0}
        ]
        assert all(fact["finished"] for fact in since_the_last_reset_but_one(ring_of(engine)))
    assert len(resets) == 1 + drops
    ended = [fact["transfer_id"] for fact in ring_of(engine).facts(Kind.TRANSFER_DONE)]
    assert sorted(ended) == sorted(fact["transfer_id"] for fact in ring_of(engine).facts(Kind.TRANSFER)), "each once"

    as_new(engine, cold)
    with Sidecar(engine.url, engine.rings, tmp_path) as sidecar:
        judged = {
            name: httpx.get(f"{sidecar.url}/proofs/{name}?wait=10", timeout=30, trust_env=False).json()["judgement"]
            for name in ("cut-C", "new-C")
        }
    proven = ("corroborated", "intact")
    assert (judged["new-C"]["verdict"], judged["new-C"]["content"]) == proven
    if drops:
        assert judged["cut-C"]["verdict"] not in ("proven", "corroborated"), "its copy was never seen to end"
    else:
        assert (judged["cut-C"]["verdict"], judged["cut-C"]["content"]) == proven


def since_the_last_reset_but_one(ring: Ring) -> list[dict[str, int]]:
    """Ends of transfers between the last two resets."""
    first, last = ring.of(Kind.RESET)[-2:]
    return [record.named() for record in ring.of(Kind.TRANSFER_DONE) if first.seq < record.seq < last.seq]


def dropped(ring: Ring) -> None:
    """The load and the backups that were under way, and the record of the flush counts them."""
    unfinished = [fact for fact in since_the_last_reset_but_one(ring) if not fact["finished"]]
    facts = ring.of(Kind.RESET)[-1].named()
    assert facts == {"open_loads": 1, "open_backups": len(unfinished) - 1}
    assert facts["open_backups"] > 0
    assert {fact["direction"] for fact in unfinished} == {Direction.HOST_TO_DEVICE, Direction.DEVICE_TO_HOST}


def as_new(engine: Engine, cold: Answer) -> None:
    """After the flush nothing is cached, and the next read of L2 is told as if there had been none before."""
    run = os.urandom(4).hex()
    answers = {"A": ask(engine, prompt("cut off"), request_id="new-A")}
    assert answers["A"].cached_tokens == 0
    assert (answers["A"].tokens, distance(answers["A"], cold) < 1e-3) == (cold.tokens, True)
    evict(engine, f"new {run}")
    answers["C"] = ask(engine, prompt("cut off"), request_id="new-C")
    ask(engine, prompt(f"last {run}", 20), tokens=2)
    ring = settled(engine, "new-C")
    session = Session(engine, answers, ring)
    for name, answer in answers.items():
        admitted_once_as_the_engine_says(session, name, answer)
    read_what_a_backup_wrote(session)
    assert not [fact for fact in ring.facts(Kind.CONTENT) if fact["mismatched"]]
    assert not [name for name, (_, _, faults) in ring.seams.items() if faults]
