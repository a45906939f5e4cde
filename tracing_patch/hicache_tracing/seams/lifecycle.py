"""Scheduler.__init__: the ring opens before it, the identity is written after it."""

from __future__ import annotations

from typing import Any

from hicache_tracing.guard import Steps
from hicache_tracing.seams.base import Target
from hicache_tracing.session import Session


def scheduler_start(session: Session) -> Steps:
    def before(_args: tuple[Any, ...], _kwargs: dict[str, Any]) -> None:
        session.open()

    def after(_token: None, _result: Any, args: tuple[Any, ...], _kwargs: dict[str, Any]) -> None:
        session.identify(args[0])

    return Steps(before, after)


TARGETS = (
    Target("sglang.srt.managers.scheduler", "Scheduler", "__init__", (("self", "server_args"),), scheduler_start),
)
