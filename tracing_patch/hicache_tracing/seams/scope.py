"""The calls that put a request's KV into the tree: a backup started inside them belongs to that request."""

from __future__ import annotations

from typing import Any

from hicache_tracing.guard import After, Before
from hicache_tracing.seams.base import RADIX, UNIFIED, Target, argument
from hicache_tracing.session import Session


def scope(session: Session) -> tuple[Before, After]:
    def before(args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        session.rid = argument(args, kwargs, 1, "req").rid

    def after(_token: None, _result: Any, _args: tuple[Any, ...], _kwargs: dict[str, Any]) -> None:
        session.rid = ""

    return before, after


NAMES = ("cache_finished_req", "cache_unfinished_req", "insert_req", "checkpoint")

TARGETS = tuple(
    Target(module, owner, name, (("self", "req"),), scope) for module, owner in (RADIX, UNIFIED) for name in NAMES
)
