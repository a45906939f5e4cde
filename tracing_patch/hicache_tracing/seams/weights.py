"""The model's weights were replaced: what was cached under the old ones is of another model."""

from __future__ import annotations

from typing import Any

from hicache_tracing.guard import Steps
from hicache_tracing.records import Kind
from hicache_tracing.seams.base import Target
from hicache_tracing.session import Session

WEIGHTS = Kind.WEIGHTS


def update(session: Session) -> Steps:
    def after(_token: None, result: Any, _args: tuple[Any, ...], _kwargs: dict[str, Any]) -> None:
        if getattr(result, "success", True) is False:
            return
        session.weight_updates += 1
        session.write(WEIGHTS, b"", session.weight_updates)

    return Steps(after=after)


OWNERS = (
    ("sglang.srt.managers.scheduler_update_weights_mixin", "SchedulerUpdateWeightsMixin"),
    ("sglang.srt.managers.scheduler_components.weight_updater", "SchedulerWeightUpdaterManager"),
)
SOURCES = ("disk", "distributed", "tensor", "ipc")

TARGETS = tuple(
    Target(module, owner, f"update_weights_from_{source}", (("self", "recv_req"),), update)
    for module, owner in OWNERS
    for source in SOURCES
)
