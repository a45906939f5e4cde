"""controller.load and controller.write: one operation queued, with the host slots that it reads or writes."""

from __future__ import annotations

from typing import Any

from hicache_tracing import dialects
from hicache_tracing.cache_classes import CONTROLLERS
from hicache_tracing.guard import Steps
from hicache_tracing.records import Kind
from hicache_tracing.runs import host_runs
from hicache_tracing.seams.base import Target, argument
from hicache_tracing.session import Session

LOAD = Kind.LOAD
BACKUP = Kind.BACKUP


def load(session: Session) -> Steps:
    """H2D. The tree may ask twice: a first refusal, an eviction, then again."""

    def after(_token: None, result: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        if args[0] is not session.controller:  # the same class also serves PD decode offload
            return
        scope = session.load_scope
        if scope is not None:
            scope.requested += 1
            if result is None:
                scope.refused += 1
        if result is None:
            return
        host = argument(args, kwargs, 1, "host_indices")
        node = dialects.number(argument(args, kwargs, 3, "node_id", -1))
        tokens = host.numel()
        runs, complete, packed = host_runs(host, session.page)
        operation = session.queued(session.loads, node, tokens)
        session.write(
            LOAD,
            session.key(session.rid) if session.rid else b"",
            node,
            tokens,
            operation,
            runs,
            complete,
            extra=packed,
        )

    return Steps(after=after)


def write(session: Session) -> Steps:
    """D2H. Called inside insert (write-through: the request whose KV it is) or inside eviction (write-back)."""

    def before(args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[int, int, int] | None:
        if args[0] is not session.controller:
            return None
        # the older controllers start the transfer inside write(): the operation must be known before
        node = dialects.number(argument(args, kwargs, 3, "node_id", -1))
        tokens = argument(args, kwargs, 1, "device_indices").numel()
        return node, tokens, session.queued(session.backups, node, tokens)

    def after(token: tuple[int, int, int] | None, result: Any, _args: tuple[Any, ...], _kwargs: dict[str, Any]) -> None:
        if token is None:
            return
        node, tokens, operation = token
        accepted = result is not None
        if not accepted:
            queued = session.backups.queued
            queued[:] = [entry for entry in queued if entry[1] != operation]
        runs, complete, packed = found = host_runs(result, session.page) if accepted else (0, 1, b"")
        if accepted:
            session.host_copies.remember(node, tokens, found)
        # a backup forced by an eviction is not of the request that needed the room
        owner = "" if session.load_scope is not None else session.rid
        session.write(
            BACKUP,
            session.key(owner) if owner else b"",
            node,
            tokens,
            operation,
            runs,
            complete,
            int(accepted),
            extra=packed,
        )

    return Steps(before, after)


TARGETS = tuple(
    target
    for module, owner in CONTROLLERS
    for target in (
        Target(module, owner, "load", (("self", "host_indices", "priority", "node_id"),), load),
        Target(module, owner, "write", (("self", "device_indices", "priority", "node_id"),), write),
    )
)
