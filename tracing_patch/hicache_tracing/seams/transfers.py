"""start_loading, start_writing: queued operations become one transfer. loading_check, writing_check: it has finished.

When the engine polls is not when the copy ended: the duration comes from the engine's own device events.
"""

from __future__ import annotations

from typing import Any

from hicache_tracing.cache_classes import CONTROLLERS, TREES
from hicache_tracing.guard import Steps
from hicache_tracing.seams.base import Target
from hicache_tracing.session import Session


def start_loading(session: Session) -> Steps:
    loads = session.loads

    def before(args: tuple[Any, ...], _kwargs: dict[str, Any]) -> tuple[int, list[Any]] | None:
        controller = args[0]
        if controller is not session.controller:
            return None
        moved = list(controller.load_queue) if session.witness is not None else []
        return len(controller.ack_load_queue), moved

    def after(token: tuple[int, list[Any]] | None, result: Any, args: tuple[Any, ...], _kwargs: dict[str, Any]) -> None:
        if token is None:
            return
        loads.start.open = bool(args[0].load_queue) or not loads.told
        acks = args[0].ack_load_queue
        if len(acks) <= token[0]:
            return
        producer = result if isinstance(result, int) else -1
        transfer = session.submitted(loads, acks[-1], producer)
        if session.witness is not None:
            session.witness.loaded(transfer, token[1], acks[-1])

    return Steps(before, after, gate=loads.start)


def start_writing(session: Session) -> Steps:
    backups = session.backups

    def before(args: tuple[Any, ...], _kwargs: dict[str, Any]) -> tuple[int, list[Any]] | None:
        controller = args[0]
        if controller is not session.controller:
            return None
        moved = list(controller.write_queue) if session.witness is not None else []
        return len(controller.ack_write_queue), moved

    def after(
        token: tuple[int, list[Any]] | None, _result: Any, args: tuple[Any, ...], _kwargs: dict[str, Any]
    ) -> None:
        if token is None:
            return
        backups.start.open = bool(args[0].write_queue) or not backups.told
        acks = args[0].ack_write_queue
        if len(acks) <= token[0]:
            return
        transfer = session.submitted(backups, acks[-1], -1)
        if session.witness is not None and session.signing:
            session.witness.backed_up(transfer, token[1], acks[-1])

    return Steps(before, after, gate=backups.start)


def loading_check(session: Session) -> Steps:
    def after(_token: None, _result: Any, _args: tuple[Any, ...], _kwargs: dict[str, Any]) -> None:
        session.drained(session.loads, getattr(session.controller, "ack_load_queue", ()))
        if session.witness is not None:
            session.witness.report(session.write)

    return Steps(after=after, gate=session.loads.end)


def writing_check(session: Session) -> Steps:
    def after(_token: None, _result: Any, _args: tuple[Any, ...], _kwargs: dict[str, Any]) -> None:
        session.drained(session.backups, getattr(session.controller, "ack_write_queue", ()))

    return Steps(after=after, gate=session.backups.end)


SELF = (("self",),)

TARGETS = tuple(
    target
    for module, owner in CONTROLLERS
    for target in (
        Target(module, owner, "start_loading", SELF, start_loading),
        Target(module, owner, "start_writing", SELF, start_writing),
    )
) + tuple(
    target
    for module, owner in TREES
    for target in (
        Target(module, owner, "loading_check", SELF, loading_check),
        Target(module, owner, "writing_check", SELF, writing_check),
    )
)
