"""The calls that put a request's KV into the tree: a backup started inside them belongs to that request. They nest."""

from __future__ import annotations

from typing import Any

from hicache_tracing.cache_classes import RADIX, UNIFIED
from hicache_tracing.guard import After, Before, Ending
from hicache_tracing.seams.base import Target, argument, nothing_after
from hicache_tracing.session import Session


def scope(session: Session) -> tuple[Before, After, Ending]:
    def before(args: tuple[Any, ...], kwargs: dict[str, Any]) -> str:
        return session.enter(argument(args, kwargs, 1, "req").rid)

    return before, nothing_after, session.leave


NAMES = ("cache_finished_req", "cache_unfinished_req", "insert_req", "checkpoint")

TARGETS = tuple(
    Target(module, owner, name, (("self", "req"),), scope) for module, owner in (RADIX, UNIFIED) for name in NAMES
)
