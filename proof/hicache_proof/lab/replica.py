"""One of several data-parallel replicas: each has an L1 and an L2 of its own, so all requests must go to one. Pure."""

from __future__ import annotations

import msgspec

from hicache_proof.lab.engine import EngineFacts
from hicache_proof.lab.errors import CannotRunError, VoidRunError
from hicache_proof.lab.reply import Reply
from hicache_proof.lab.sidecar import NoProof, Proof

FIELDS = ("routed_dp_rank", "data_parallel_rank")
"""Of a request. SGLang 0.5.9 knows only the second one, 0.5.16 only the first; and it ignores what it does not know."""


class _Schema(msgspec.Struct):
    properties: dict[str, msgspec.Raw] = {}


class _Components(msgspec.Struct):
    schemas: dict[str, _Schema] = {}


class _OpenApi(msgspec.Struct):
    components: _Components


def chosen(facts: EngineFacts, wanted: int | None) -> int | None:
    """None: there is only one. Raises CannotRunError for a replica that there isn't."""
    if wanted is not None and wanted >= facts.dp_size:
        there = "no data-parallel replicas" if facts.dp_size == 1 else f"data-parallel ranks 0 to {facts.dp_size - 1}"
        raise CannotRunError(f"{facts.url} has {there}: --dp-rank {wanted} is none of them")
    return (wanted or 0) if facts.dp_size > 1 else None


def field(openapi: bytes | None, url: str) -> str:
    """The field that chooses, as the engine describes its own API; the newest one where it does not describe it.

    Raises CannotRunError if there is none.
    """
    try:
        known = msgspec.json.decode(openapi or b"", type=_OpenApi).components.schemas["GenerateReqInput"].properties
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError, KeyError):
        return FIELDS[0]
    found = next((name for name in FIELDS if name in known), None)
    if found is None:
        raise CannotRunError(
            f"{url} has data-parallel replicas with a cache each, and its /generate takes no field that chooses one; "
            "run the lab against an engine with --dp-size 1"
        )
    return found


def served_by(reply: Reply, proof: Proof | NoProof | None) -> int | None:
    """As the flight recorder has it, else as the reply does; None: neither tells."""
    if isinstance(proof, Proof):
        parts = [part[2:] for part in proof.evidence.rank.split("-") if part.startswith("dp")]
        if parts and parts[0].isdecimal():
            return int(parts[0])
    return reply.dp_rank


def refuse_another(reply: Reply, proof: Proof | NoProof | None, wanted: int | None) -> None:
    """Raises VoidRunError if another replica than the wanted one has served the request."""
    found = served_by(reply, proof)
    if wanted is not None and found is not None and found != wanted:
        raise VoidRunError(
            f"the engine was told to serve {reply.request_id} with data-parallel rank {wanted}, and rank {found} "
            "served it: this release ignores the choice, or something in front of the engine drops it; give --engine "
            "the address of the server itself, or run the lab against one with --dp-size 1"
        )
