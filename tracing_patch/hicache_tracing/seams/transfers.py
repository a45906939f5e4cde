"""start_loading, start_writing: queued operations become one transfer. loading_check, writing_check: it has finished.

When the engine polls is not when the copy ended: the duration comes from the engine's own device events.
"""

from __future__ import annotations

from typing import Any

from hicache_tracing.cache_classes import CONTROLLERS, TREES
from hicache_tracing.guard import After, Before
from hicache_tracing.seams.base import Target, nothing_before
from hicache_tracing.session import Session


def start_loading(session: Session) -> tuple[Before, After]:
    def before(args: tuple[Any, ...], _kwargs: dict[str, Any]) -> tuple[int, list[Any]] | None:
        controller = args[0]
        if controller is not session.controller:
            return None
        moved = list(controller.load_queue) if session.witness is not None else []
        return len(controller.ack_load_queue), moved

    def after(token: tuple[int, list[Any]] | None, result: Any, args: tuple[Any, ...], _kwargs: dict[str, Any]) -> None:
        if token is None or len(args[0].ack_load_queue) <= token[0]:
            return
        ack = args[0].ack_load_queue[-1]
        producer = result if isinstance(result, int) else -1
        transfer = session.submitted(session.loads, ack, producer)
        if session.witness is not None:
            session.witness.loaded(transfer, token[1], ack)

    return before, after


def start_writing(session: Session) -> tuple[Before, After]:
    def before(args: tuple[Any, ...], _kwargs: dict[str, Any]) -> tuple[int, list[Any]] | None:
        controller = args[0]
        if controller is not session.controller:
            return None
        moved = list(controller.write_queue) if session.witness is not None else []
        return len(controller.ack_write_queue), moved

    def after(
        token: tuple[int, list[Any]] | None, _result: Any, args: tuple[Any, ...], _kwargs: dict[str, Any]
    ) -> None:
        if token is None or len(args[0].ack_write_queue) <= token[0]:
            return
        ack = args[0].ack_write_queue[-1]
        transfer = session.submitted(session.backups, ack, -1)
        if session.witness is not None and session.signing:
            session.witness.backed_up(transfer, token[1], ack)

    return before, after


def loading_check(session: Session) -> tuple[Before, After]:
    def after(_token: None, _result: Any, _args: tuple[Any, ...], _kwargs: dict[str, Any]) -> None:
        controller = session.controller
        if controller is not None and session.loads.open:
            session.drained(session.loads, controller.ack_load_queue)
        if session.witness is not None:
            session.witness.report(session.write)

    return nothing_before, after


def writing_check(session: Session) -> tuple[Before, After]:
    def after(_token: None, _result: Any, _args: tuple[Any, ...], _kwargs: dict[str, Any]) -> None:
        controller = session.controller
        if controller is not None and session.backups.open:
            session.drained(session.backups, controller.ack_write_queue)

    return nothing_before, after


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
