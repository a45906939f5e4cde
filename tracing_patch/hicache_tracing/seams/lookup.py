"""PrefillAdder.add_one_req: what the tree promises a request at the moment the scheduler tries to admit it.

match_prefix itself runs many times a request (in every pass of a cache-aware policy), so it is not patched.
A promise is recorded when it changes; retries with the same promise are one lookup.
"""

from __future__ import annotations

from typing import Any

from hicache_tracing import dialects
from hicache_tracing.guard import Steps
from hicache_tracing.records import ABSENT, Kind
from hicache_tracing.seams.base import Target, argument
from hicache_tracing.session import Session

LOOKUP = Kind.LOOKUP
FINISH = Kind.FINISH

MAX_PROMISED = 4096  # requests whose promise is remembered; more wait only where the engine hides their end


def lookup(session: Session) -> Steps:
    def before(args: tuple[Any, ...], kwargs: dict[str, Any]) -> str:
        req = argument(args, kwargs, 1, "req")
        key = session.key(req.rid)
        device = dialects.device_prefix(req)
        host = dialects.number(req.host_hit_length)
        # a request that was aborted while it waited has no end: another one may bear its id, and waits since later
        promise = device, host, getattr(getattr(req, "time_stats", None), "wait_queue_entry_time", 0.0)
        promised = session.promised
        known = promised.get(key)
        if known != promise:
            if known is not None and known[2] != promise[2] and not getattr(req, "retracted_stain", True):
                session.first_tokens.seen(key)
                session.write(FINISH, key, ABSENT, 0, 1, ABSENT)  # what was told of that one is not of this one
            session.write(
                LOOKUP,
                key,
                len(req.origin_input_ids),
                device,
                host,
                dialects.number(getattr(req, "storage_hit_length", None)),
                dialects.best_node(req),
            )
            if len(promised) >= MAX_PROMISED:
                promised.clear()
            promised[key] = promise
        return session.enter(req.rid)  # last: a fault above must leave no request in charge

    return Steps(before, ending=session.leave)


TARGETS = (Target("sglang.srt.managers.schedule_policy", "PrefillAdder", "add_one_req", (("self", "req"),), lookup),)
