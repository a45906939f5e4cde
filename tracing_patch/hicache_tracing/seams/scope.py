"""The calls that put a request's KV into the tree: a backup started inside them belongs to that request. They nest."""

from __future__ import annotations

from typing import Any

from hicache_tracing.cache_classes import RADIX, UNIFIED
from hicache_tracing.guard import Steps
from hicache_tracing.seams.base import Target, argument
from hicache_tracing.session import Session


def scope(session: Session) -> Steps:
    def before(args: tuple[Any, ...], kwargs: dict[str, Any]) -> str:
        return session.enter(argument(args, kwargs, 1, "req").rid)

    return Steps(before, ending=session.leave)


NAMES = ("cache_finished_req", "cache_unfinished_req", "insert_req", "checkpoint")

TARGETS = tuple(
    Target(module, owner, name, (("self", "req"),), scope) for module, owner in (RADIX, UNIFIED) for name in NAMES
)
