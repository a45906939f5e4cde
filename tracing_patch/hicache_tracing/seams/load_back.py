"""init_load_back of the tree: what was promised, what was loaded, and why not when it was not."""

from __future__ import annotations

from typing import Any

from hicache_tracing import dialects
from hicache_tracing.cache_classes import TREES
from hicache_tracing.guard import Steps
from hicache_tracing.load_scope import LoadScope
from hicache_tracing.records import Kind, LoadBackOutcome
from hicache_tracing.seams.base import Target, argument
from hicache_tracing.session import Session

LOAD_BACK = Kind.LOAD_BACK


def load_back(session: Session) -> Steps:
    def before(args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[LoadScope, bytes, int, int, int]:
        asked = argument(args, kwargs, 1, "params")
        if asked is None:
            asked = kwargs.get("last_node")
        promised = getattr(asked, "host_hit_length", None)
        if promised is None:  # up to 0.5.9: (last_node, host_hit_length, mem_quota)
            node, promised = asked, argument(args, kwargs, 2, "host_hit_length")
            rid, quota = session.rid, argument(args, kwargs, 3, "mem_quota")
        else:
            node = getattr(asked, "best_match_node", None) or getattr(asked, "last_host_node", None)
            req = getattr(asked, "req", None)
            rid, quota = (req.rid if req is not None else session.rid), asked.mem_quota
        facts = session.key(rid), dialects.number(promised), dialects.node_id(node), dialects.number(quota)
        scope = session.load_scope = LoadScope()  # last: a fault above must leave no scope open
        return scope, *facts

    def after(
        token: tuple[LoadScope, bytes, int, int, int], result: Any, args: tuple[Any, ...], _kwargs: dict[str, Any]
    ) -> None:
        scope, key, promised, node, quota = token
        threshold = dialects.number(getattr(args[0], "load_back_threshold", None))
        if result is None:
            loaded, outcome = 0, LoadBackOutcome.BUFFER_MODE
        else:
            answered = dialects.loaded_tokens(result)
            loaded = scope.loaded(answered, hybrid=dialects.is_hybrid(args[0]))
            outcome = scope.outcome(promised, answered, threshold, quota)
        if outcome is LoadBackOutcome.NOTHING:
            return
        session.write(LOAD_BACK, key, promised, loaded, outcome, node, threshold, quota, scope.evicted, scope.refused)

    def ending(_token: tuple[LoadScope, bytes, int, int, int]) -> None:
        session.load_scope = None

    return Steps(before, after, ending)


NEW = ("self", "params")
OLD = ("self", "last_node", "host_hit_length", "mem_quota")

TARGETS = tuple(Target(module, owner, "init_load_back", (NEW, OLD), load_back) for module, owner in TREES)
