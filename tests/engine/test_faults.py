"""The faults that other tests put into an engine do what they say, and only that."""

from __future__ import annotations

import math
from collections.abc import Iterable
from pathlib import Path

import pytest

from hicache_proof.demo.engine import Engine
from hicache_tracing import records
from hicache_tracing.records import Kind, SeamState

from ..tracing.ring import read
from .driver import Answer, ask, distance, evict, flush, prompt

pytestmark = pytest.mark.engine


def cold_and_from_l2(engine: Engine) -> tuple[Answer, Answer]:
    flush(engine)
    cold = ask(engine, prompt("A"))
    evict(engine, "faults")
    from_l2 = ask(engine, prompt("A"))
    assert from_l2.by_tier == {"device": 0, "host": 299}
    return cold, from_l2


@pytest.mark.parametrize("fault", ["zero", "one_row"])
def test_damaged_rows_change_the_answer_and_no_counter(engines, faulty, fault: str) -> None:
    cold, from_l2 = cold_and_from_l2(engines(faulty(load_back=fault)))
    assert all(map(math.isfinite, from_l2.logprobs)), "an answer like any other, only a wrong one"
    assert distance(cold, from_l2) > 1e-2 if fault == "zero" else distance(cold, from_l2) > 1e-5


def slots(ring: Path) -> list[tuple[int, int]]:
    """(expected sequence number, the one that is there) of each slot that was handed out."""
    data = ring.read_bytes()
    head = int.from_bytes(data[records.HEAD_OFFSET : records.HEAD_OFFSET + 8], "little")
    body = data[records.HEADER_SIZE :]
    return [
        (position + 1, records.PREFIX.unpack_from(body, position * records.SLOT_SIZE)[0]) for position in range(head)
    ]


def kinds(ring: Path) -> set[int]:
    """Of records in their place."""
    data = ring.read_bytes()
    body = data[records.HEADER_SIZE :]
    return {
        records.BODY.unpack_from(body, position * records.SLOT_SIZE + records.PREFIX.size)[0]
        for position, (expected, found) in enumerate(slots(ring))
        if expected == found
    }


def test_lost_records_leave_a_hole(engines, faulty, engine: Engine) -> None:
    lossy = engines(faulty(lose="LOAD_BACK"))
    for server, lost in ((lossy, True), (engine, False)):
        cold_and_from_l2(server)
        (ring,) = server.rings.glob("*.ring")
        assert (Kind.LOAD_BACK not in kinds(ring)) == lost
        assert (0 in {found for _, found in slots(ring)}) == lost


def test_a_seam_that_always_raises_switches_itself_off_and_the_engine_answers_the_same(engines, faulty, engine) -> None:
    broken = engines(faulty(seam="all"))
    good, bad = cold_and_from_l2(engine), cold_and_from_l2(broken)
    same_to_the_bit(good, bad)
    assert "switched itself off" in broken.log.read_text()


@pytest.mark.matrix
@pytest.mark.parametrize("part", ["record", "clock", "witness"])
def test_so_it_does_whatever_part_of_ours_fails(engines, faulty, engine, part: str) -> None:
    broken = engines(faulty(part=part))
    good, bad = cold_and_from_l2(engine), cold_and_from_l2(broken)
    same_to_the_bit(good, bad)
    (ring,) = broken.rings.glob("*.ring")
    tripped = {name for name, (state, _, _) in read(ring).seams.items() if state is SeamState.TRIPPED}
    assert tripped, "what fails again and again is off, and says so"
    assert (part == "witness") == bool(kinds(ring) & {Kind.ADMIT})


def same_to_the_bit(good: Iterable[Answer], bad: Iterable[Answer]) -> None:
    for one, other in zip(good, bad, strict=True):
        assert (one.tokens, one.logprobs, one.by_tier) == (other.tokens, other.logprobs, other.by_tier)
