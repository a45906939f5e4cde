"""The idle scheduler: device and host memory as only this process sees it, at start and at most every 10 seconds."""

from __future__ import annotations

from time import monotonic_ns
from typing import Any

from hicache_tracing import dialects
from hicache_tracing.guard import Steps
from hicache_tracing.records import Kind
from hicache_tracing.seams.base import Target
from hicache_tracing.session import Session

MEMORY = Kind.MEMORY

INTERVAL_NS = 10_000_000_000


def turn(session: Session) -> Steps:
    next_at = 0

    def idle(_args: tuple[Any, ...]) -> bool:
        return monotonic_ns() < next_at

    def after(_token: None, _result: Any, args: tuple[Any, ...], _kwargs: dict[str, Any]) -> None:
        nonlocal next_at
        if session.recorder is not None:
            next_at = monotonic_ns() + INTERVAL_NS
            session.write(MEMORY, b"", *dialects.memory(args[0], session.controller))

    return Steps(after=after, idle=idle)


MODULE = "sglang.srt.managers.scheduler"
MIXIN = ("sglang.srt.managers.scheduler_runtime_checker_mixin", "SchedulerRuntimeCheckerMixin")

TARGETS = (
    Target(MODULE, "Scheduler", "on_idle", (("self",),), turn),
    Target(*MIXIN, "on_idle", (("self",),), turn),
    Target(*MIXIN, "self_check_during_idle", (("self",),), turn, unless="on_idle"),
)
