"""PrefillAdder.add_one_req: what the tree promises a request at the moment the scheduler tries to admit it.

match_prefix itself runs many times a request (in every pass of a cache-aware policy), so it is not patched.
A promise is recorded when it changes; retries with the same promise are one lookup.
"""

from __future__ import annotations

from typing import Any

from hicache_tracing import dialects
from hicache_tracing.guard import After, Before
from hicache_tracing.records import Kind
from hicache_tracing.seams.base import Target, argument
from hicache_tracing.session import Session


def lookup(session: Session) -> tuple[Before, After]:
    def before(args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        req = argument(args, kwargs, 1, "req")
        rid = req.rid
        device = dialects.device_prefix(req)
        host = dialects.number(req.host_hit_length)
        promise = (rid, device, host)
        if promise != session.last_lookup:
            session.write(
                Kind.LOOKUP,
                session.key(rid),
                len(req.origin_input_ids),
                device,
                host,
                dialects.number(getattr(req, "storage_hit_length", None)),
                dialects.best_node(req),
            )
            session.last_lookup = promise
        session.rid = rid  # last: a fault above must leave no request in charge

    def after(_token: None, _result: Any, _args: tuple[Any, ...], _kwargs: dict[str, Any]) -> None:
        session.rid = ""

    return before, after


TARGETS = (Target("sglang.srt.managers.schedule_policy", "PrefillAdder", "add_one_req", (("self", "req"),), lookup),)
