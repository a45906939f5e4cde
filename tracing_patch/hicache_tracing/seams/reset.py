"""reset of the tree: transfers still open are dropped unacknowledged, and nothing is resident any more."""

from __future__ import annotations

from typing import Any

from hicache_tracing.cache_classes import TREES
from hicache_tracing.guard import Steps
from hicache_tracing.seams.base import Target
from hicache_tracing.session import Session


def reset(session: Session) -> Steps:
    def before(args: tuple[Any, ...], _kwargs: dict[str, Any]) -> None:
        if args[0] is session.tree:  # a tree under construction resets itself too
            session.reset()

    return Steps(before)


TARGETS = tuple(Target(module, owner, "reset", (("self",),), reset) for module, owner in TREES)
