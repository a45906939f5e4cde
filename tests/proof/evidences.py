"""Evidence for the tests: the plain L2 read of 299 tokens that every table starts from, and ways to change it."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from hicache_proof.evidence import (
    Answer,
    Attribution,
    Content,
    Control,
    Counters,
    Evidence,
    LoadBack,
    Lookup,
    Physical,
    Provenance,
    RankView,
    Recorder,
    Residency,
    Transfer,
    Writer,
)

READ = 299
WATCHING = Recorder(watching=True, lost_records=0, lookups=1)
RECORDER_OFF = Recorder(watching=False, lost_records=0)
RETRIED = Recorder(watching=True, lost_records=0, lookups=2)


def lookup(device: int = 0, host: int = READ, storage: int | None = None) -> Lookup:
    return Lookup(
        prompt_tokens=300, device_tokens=device, host_tokens=host, storage_tokens=storage, node_id=7, at_ns=1000
    )


def load_back(loaded: int = READ, outcome: str = "loaded", promised: int = READ, **limits: Any) -> LoadBack:
    return LoadBack(
        promised_tokens=promised, loaded_tokens=loaded, outcome=outcome, node_id=7, at_ns=1100, **limits
    )  # fmt: skip


def residency(**changes: Any) -> Residency:
    seen: dict[str, Any] = {
        "backed_up_tokens": READ,
        "unfinished_backup_tokens": 0,
        "left_device_tokens": 450,
        "node_seen_leaving": True,
        "returned_since": False,
    }
    return Residency(**(seen | changes))


def provenance(known: int = READ, read: int = READ, written_at: int = 500) -> Provenance:
    writers = (Writer(request_id="request-a", operation_id=3, tokens=known, written_at_ns=written_at),) if known else ()
    return Provenance(slots_read=read, slots_known=known, writers=writers)


def transfer(tokens: int = READ, finished: bool | None = True, **changes: Any) -> Transfer:
    seen: dict[str, Any] = {
        "transfer_id": 1,
        "tokens": tokens,
        "request_tokens": tokens,
        "bytes": tokens * 512,
        "submitted_ns": 1200,
        "finished_ns": 1300 if finished else None,
        "finished": finished,
    }
    return Transfer(**(seen | changes))


def scheduler(device: int | None = 0, host: int | None = READ, storage: int | None = 0) -> Attribution:
    return Attribution(device_tokens=device, host_tokens=host, storage_tokens=storage, source="scheduler")


def reply(device: int | None = 0, host: int | None = READ, storage: int | None = 0, **more: Any) -> Attribution:
    return Attribution(device_tokens=device, host_tokens=host, storage_tokens=storage, source="reply", **more)


def counters(load_back: int | None = READ, host: int | None = READ, exclusive: bool = True) -> Counters:
    return Counters(load_back_tokens=load_back, cached_host_tokens=host, exclusive=exclusive)


def physical(bus: int = 178_000, claimed: int = 153_088, **changes: Any) -> Physical:
    return Physical(**({"claimed_bytes": claimed, "bus_bytes": bus, "baseline_bytes": 600, "usable": True} | changes))


def content(checked: int = READ, mismatched: int = 0, unseen: int = 0, mode: Any = "full") -> Content:
    return Content(checked=checked, mismatched=mismatched, unseen=unseen, mode=mode, layers=2)


def answer(delta: float = 3e-6, planted: int = 5, recalled: int = 5, same: bool = True) -> Answer:
    return Answer(
        same_tokens=same, max_logprob_delta=delta, tolerance=1e-3, markers_planted=planted, markers_recalled=recalled
    )


def control(
    host: int | None = 0, load_back: int | None = 0, cached: int | None = 0, kind: Any = "hicache_off"
) -> Control:
    return Control(kind=kind, host_tokens=host, load_back_tokens=load_back, cached_tokens=cached)


def sibling(host: int | None = READ, loaded: int | None = READ, **changes: Any) -> RankView:
    return RankView(**({"rank": "tp1", "host_tokens": host, "loaded_tokens": loaded} | changes))


L2_READ = Evidence(
    request_id="request-c",
    engine="127.0.0.1:30000",
    rank="tp0",
    recorder=WATCHING,
    lookup=lookup(),
    load_back=load_back(),
    residency=residency(),
    provenance=provenance(),
    transfers=(transfer(),),
    attribution=scheduler(),
    first_token_ns=2000,
    prompt_tokens=300,
    computed_tokens=1,
)
"""Everything a request that read L2 leaves in the records of a rank; nothing from outside the engine."""

EVERYTHING = replace(
    L2_READ,
    reply=reply(),
    counters=counters(),
    physical=physical(),
    content=content(),
    answer=answer(),
    control=control(),
    ranks=(sibling(),),
)
"""All witnesses, all agreeing."""

L1_HIT = Evidence(
    request_id="request-b",
    engine="127.0.0.1:30000",
    rank="tp0",
    recorder=WATCHING,
    lookup=lookup(device=READ, host=0),
    transfers=(),
    attribution=scheduler(device=READ, host=0),
    first_token_ns=2000,
    prompt_tokens=300,
    computed_tokens=1,
)
COLD = replace(
    L1_HIT,
    request_id="request-a",
    lookup=lookup(device=0, host=0),
    attribution=scheduler(device=0, host=0),
    computed_tokens=300,
)


def but(evidence: Evidence = L2_READ, **changes: Any) -> Evidence:
    """The same evidence with some facts replaced; a fact set to None is a witness removed."""
    return replace(evidence, **changes)
