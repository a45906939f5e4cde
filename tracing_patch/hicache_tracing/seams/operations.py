"""controller.load and controller.write: one operation queued, with the host slots that it reads or writes."""

from __future__ import annotations

import sys
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
        if scope is not None:
            scope.moved += tokens
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


Queued = tuple[int, int, int, BaseException | None]
"""Node, tokens, our number of the operation, and the exception that was being handled when the engine was asked."""


def write(session: Session) -> Steps:
    """D2H. Called inside insert (write-through: the request whose KV it is) or inside eviction (write-back)."""

    def before(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Queued | None:
        if args[0] is not session.controller:
            return None
        # the older controllers start the transfer inside write(): the operation must be known before
        node = dialects.number(argument(args, kwargs, 3, "node_id", -1))
        tokens = argument(args, kwargs, 1, "device_indices").numel()
        return node, tokens, session.queued(session.backups, node, tokens), sys.exception()

    def ending(token: Queued | None) -> None:
        if token is not None and sys.exception() is not token[3]:  # it raises: nothing of it is under way
            _take_back(session, token[2])

    def after(token: Queued | None, result: Any, _args: tuple[Any, ...], _kwargs: dict[str, Any]) -> None:
        if token is None:
            return
        node, tokens, operation, _ = token
        accepted = result is not None
        if not accepted:
            _take_back(session, operation)
        runs, complete, packed = found = host_runs(result, session.page) if accepted else (0, 1, b"")
        if accepted:
            session.host_copies.remember(node, tokens, found)
        owner = _owner(session)
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

    return Steps(before, after, ending)


def _owner(session: Session) -> str:
    """The request whose KV is backed up. Under write_back no insert backs up and every eviction may, also inside the
    scope of the request that needs the room: whose KV it is nobody can say. Under the other policies no eviction does.
    """
    rid = session.rid
    return "" if rid and dialects.write_policy(session.tree, session.controller) == "write_back" else rid


def _take_back(session: Session, operation: int) -> None:
    queued = session.backups.queued
    queued[:] = [entry for entry in queued if entry[1] != operation]


TARGETS = tuple(
    target
    for module, owner in CONTROLLERS
    for target in (
        Target(module, owner, "load", (("self", "host_indices", "priority", "node_id"),), load),
        Target(module, owner, "write", (("self", "device_indices", "priority", "node_id"),), write),
    )
)
