"""What the plugin records on the real engine: the same facts, whatever the release, the tree and the write policy.

One scenario: A cold, B the same prefix with another end (L1), other prompts until A has left L1, C the same as A (L2),
D once more (L1). Each fact is asserted from the ring alone, and held against the engine's own reply.
"""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from pathlib import Path

import pytest

from hicache_proof.demo.engine import Engine, EngineSpec
from hicache_proof.demo.releases import NEWEST, RELEASES
from hicache_tracing.records import (
    ABSENT,
    Direction,
    EvictCause,
    Kind,
    LoadBackOutcome,
    Record,
    SeamState,
    Tier,
    unpack_pairs,
    unpack_runs,
)

from ..tracing.ring import Ring, read
from .compatibility import note
from .driver import Answer, ask, evict, flush, prompt

pytestmark = pytest.mark.engine

OLDEST = "0.5.9"
IN_EVERY_TEST_RUN = (OLDEST, NEWEST)
POLICIES = [
    pytest.param(EngineSpec(version=version, **how), marks=[] if version == NEWEST else [pytest.mark.matrix])
    for version in (OLDEST, "0.5.16", NEWEST)
    for how in (
        {"write_policy": "write_back", "page_size": 16},
        {"write_policy": "write_through_selective"},
        {"page_size": 16, "chunked_prefill_size": 128},
    )
]


@dataclass
class Session:
    """The answers of the scenario, and the ring as it was right after."""

    engine: Engine
    answers: dict[str, Answer]
    ring: Ring

    def of(self, request: str, kind: Kind) -> list[dict[str, int]]:
        rid = self.answers[request].request_id
        return [record.named() for record in self.ring.of(kind) if record.rid == rid]

    def one(self, request: str, kind: Kind) -> dict[str, int]:
        found = self.of(request, kind)
        assert len(found) == 1, (request, kind.name, found)
        return found[0]

    def record(self, request: str, kind: Kind) -> Record:
        rid = self.answers[request].request_id
        (found,) = [record for record in self.ring.of(kind) if record.rid == rid]
        return found


def play(engine: Engine) -> Session:
    flush(engine)
    run = os.urandom(4).hex()
    ids = prompt(f"A {run}")
    turned = [*ids[:260], *prompt(f"end {run}", 40)]

    def say(name: str, tokens: list[int]) -> Answer:
        return ask(engine, tokens, request_id=f"{name}-{run}")

    answers = {"A": say("A", ids), "B": say("B", turned)}
    if engine.spec.write_policy == "write_through_selective":
        ask(engine, ids)  # backed up when it is asked for again
    evict(engine, f"facts {run}")
    answers["C"] = say("C", ids)
    answers["D"] = say("D", ids)
    ask(engine, prompt(f"last {run}", 20), tokens=2)  # older engines collect finished copies only when asked again
    return Session(engine, answers, settled(engine, f"C-{run}"))


def settled(engine: Engine, rid: str) -> Ring:
    """The scheduler's ring, once the transfer that served ``rid`` has been seen finished and compared."""
    (path,) = Path(engine.rings).glob("*.ring")
    deadline = time.monotonic() + 10
    while True:
        ring = read(path)
        loads = [fact for fact in ring.facts(Kind.TRANSFER) if fact["direction"] == Direction.HOST_TO_DEVICE]
        done = {fact["transfer_id"] for fact in ring.facts(Kind.TRANSFER_DONE)}
        compared = {fact["transfer_id"] for fact in ring.facts(Kind.CONTENT)}
        ended = any(record.rid == rid for record in ring.of(Kind.FINISH))
        if ended and loads and all(load["transfer_id"] in done & compared for load in loads):
            return ring
        assert time.monotonic() < deadline, (loads, done, compared)
        time.sleep(0.1)


def holds(session: Session) -> None:
    ring, spec = session.ring, session.engine.spec
    assert ring.torn == []
    assert ring.dropped == 0
    assert ring.identity["engine_version"] == spec.version
    assert ring.identity["page_size"] == spec.page_size
    assert ring.identity["content_mode"] == "full"
    assert not [name for name, (state, _, _) in ring.seams.items() if state is SeamState.UNRECOGNISED]
    assert not [name for name, (_, _, faults) in ring.seams.items() if faults]
    for request, answer in session.answers.items():
        admitted_once_as_the_engine_says(session, request, answer)
    left_the_device_with_a_host_copy(session)
    read_what_a_backup_wrote(session)


def admitted_once_as_the_engine_says(session: Session, request: str, answer: Answer) -> None:
    admission = session.one(request, Kind.ADMIT)
    by_tier = answer.by_tier or {"device": 0, "host": 0}
    assert admission["prompt_tokens"] == answer.prompt_tokens == 300
    assert (admission["device_tokens"], admission["host_tokens"]) == (by_tier["device"], by_tier["host"])
    assert admission["cached_tokens"] == answer.cached_tokens
    assert admission["computed_tokens"] == 300 - answer.cached_tokens
    promise = session.of(request, Kind.LOOKUP)[-1]
    assert (promise["device_tokens"], promise["host_tokens"]) == (by_tier["device"], by_tier["host"])
    first = session.one(request, Kind.FIRST_TOKEN)
    assert 0 < first["received_ns"] <= first["prefill_start_ns"] <= session.record(request, Kind.FIRST_TOKEN).t_ns
    assert session.one(request, Kind.FINISH)["aborted"] == 0


def left_the_device_with_a_host_copy(session: Session) -> None:
    """Every host slot that C reads was seen to be all that was left of its block, before C looked it up."""
    load = session.record("C", Kind.LOAD)
    lookup = session.record("C", Kind.LOOKUP)
    left: set[int] = set()
    for record in session.ring.of(Kind.EVICT):
        fact = record.named()
        if record.seq < lookup.seq and fact["tier"] == Tier.DEVICE and fact["cause"] == EvictCause.DEMOTED:
            assert fact["runs_complete"] == 1
            slots = spread(unpack_runs(record.extra, fact["runs"]))
            assert len(slots) == fact["tokens"]
            left.update(slots)
    assert set(spread(unpack_runs(load.extra, load.named()["runs"]))) <= left


def read_what_a_backup_wrote(session: Session) -> None:
    ring = session.ring
    outcome = session.one("C", Kind.LOAD_BACK)
    host = session.answers["C"].by_tier["host"]
    assert host > 0
    assert (outcome["promised_tokens"], outcome["loaded_tokens"]) == (host, host)
    assert outcome["outcome"] == LoadBackOutcome.LOADED

    load = session.record("C", Kind.LOAD)
    fact = load.named()
    assert (fact["tokens"], fact["runs_complete"]) == (host, 1)
    slots = spread(unpack_runs(load.extra, fact["runs"]))
    assert len(slots) == host
    finished = {done["transfer_id"] for done in ring.facts(Kind.TRANSFER_DONE) if done["finished"]}
    moved = operations(ring, Direction.DEVICE_TO_HOST)
    written: dict[int, int] = {}
    for backup in (record for record in ring.of(Kind.BACKUP) if record.seq < load.seq and record.named()["accepted"]):
        numbers = backup.named()
        for slot in spread(unpack_runs(backup.extra, numbers["runs"])):
            written[slot] = numbers["operation_id"]
    assert all(moved[written[slot]] in finished for slot in slots)

    transfer = operations(ring, Direction.HOST_TO_DEVICE)[fact["operation_id"]]
    (submitted,) = [it for it in ring.facts(Kind.TRANSFER) if it["transfer_id"] == transfer]
    (done,) = [it for it in ring.facts(Kind.TRANSFER_DONE) if it["transfer_id"] == transfer]
    (content,) = [it for it in ring.facts(Kind.CONTENT) if it["transfer_id"] == transfer]
    assert (submitted["tokens"], done["tokens"], done["finished"]) == (host, host, 1)
    assert submitted["bytes"] == done["bytes"] == host * ring.identity["bytes_per_token"]
    assert (done["device_ns"] == ABSENT) == (not submitted["timed"])
    assert (content["checked"], content["mismatched"], content["unseen"]) == (host, 0, 0)


def operations(ring: Ring, direction: Direction) -> dict[int, int]:
    """Operation id: transfer that carried it"""
    found = {}
    for record in ring.of(Kind.TRANSFER):
        fact = record.named()
        if fact["direction"] == direction:
            for _, operation in unpack_pairs(record.extra, fact["operations"]):
                found[operation] = fact["transfer_id"]
    return found


def spread(runs: list[tuple[int, int]]) -> list[int]:
    return [slot for first, count in runs for slot in range(first, first + count)]


@pytest.mark.parametrize(
    "version",
    [pytest.param(v, marks=[] if v in IN_EVERY_TEST_RUN else [pytest.mark.matrix]) for v in RELEASES],
)
def test_every_release_yields_the_same_facts(engines, version: str) -> None:
    session = play(engines(EngineSpec(version=version)))
    holds(session)
    note(session.ring)


@pytest.mark.parametrize("spec", POLICIES, ids=lambda spec: f"{spec.version}-{spec.write_policy}-{spec.page_size}")
def test_so_does_every_write_policy_and_page_size(engines, spec: EngineSpec) -> None:
    holds(play(engines(spec)))


def test_so_does_the_python_tree_core(engines) -> None:
    session = play(engines(EngineSpec(tree_core="python")))
    holds(session)
    assert session.ring.identity["tree_core"] == "UnifiedTreeCore"


@pytest.mark.parametrize(
    "version", [pytest.param(v, marks=[] if v == NEWEST else [pytest.mark.matrix]) for v in (OLDEST, "0.5.16", NEWEST)]
)
def test_rows_zeroed_on_the_way_back_are_seen_though_every_counter_is_green(engines, faulty, version: str) -> None:
    session = play(engines(faulty(load_back="zero", version=version)))
    (content,) = session.ring.facts(Kind.CONTENT)
    assert content["mismatched"] == content["checked"] > 0
    assert session.one("C", Kind.ADMIT)["host_tokens"] == session.answers["C"].by_tier["host"] > 0
    assert session.answers["C"].tokens != session.answers["A"].tokens


def test_a_flush_is_recorded_and_what_was_known_is_void(engines) -> None:
    engine = engines(EngineSpec())
    session = play(engine)
    flush(engine)
    (path,) = Path(engine.rings).glob("*.ring")
    assert len(read(path).of(Kind.RESET)) > len(session.ring.of(Kind.RESET))
    again = ask(engine, prompt("A after a flush"))
    assert again.cached_tokens == 0


def test_two_ranks_agree_token_by_token(engines) -> None:
    engine = engines(EngineSpec(tp_size=2))
    flush(engine)
    ids, rid = prompt("ranks"), "ranks-C"
    ask(engine, ids)
    evict(engine, "ranks")
    answer = ask(engine, ids, request_id=rid)
    ask(engine, prompt("ranks, last", 20), tokens=2)
    time.sleep(1)
    rings = sorted(
        (read(path) for path in Path(engine.rings).glob("*.ring")), key=lambda ring: ring.identity["tp_rank"]
    )
    assert [ring.identity["tp_rank"] for ring in rings] == [0, 1]
    views = [
        [
            {name: value for name, value in record.named().items() if not name.endswith("_ns")}
            for record in ring.records
            if record.rid == rid and record.kind in (Kind.LOOKUP, Kind.ADMIT, Kind.LOAD, Kind.LOAD_BACK)
        ]
        for ring in rings
    ]
    assert views[0] == views[1]
    assert views[0][1]["tokens"] == answer.by_tier["host"] > 0
    whole = read_bytes(engines(EngineSpec()), ids)
    assert [load["bytes"] * 2 for ring in rings for load in loads(ring)] == [whole, whole]


def loads(ring: Ring) -> list[dict[str, int]]:
    return [fact for fact in ring.facts(Kind.TRANSFER) if fact["direction"] == Direction.HOST_TO_DEVICE]


def read_bytes(engine: Engine, ids: list[int]) -> int:
    """Bytes of KV that a single rank holds for the tokens of a prompt that can be cached."""
    (path,) = Path(engine.rings).glob("*.ring")
    return (len(ids) - 1) * int(read(path).identity["bytes_per_token"])
