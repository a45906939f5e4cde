"""ScheduleBatch.prepare_for_extend: the one place where a request's hit is counted, once, on its first chunk."""

from __future__ import annotations

from typing import Any

from hicache_tracing import dialects, trace_context
from hicache_tracing.guard import Steps
from hicache_tracing.records import ABSENT, Kind
from hicache_tracing.seams.base import Target
from hicache_tracing.session import Session

ADMIT = Kind.ADMIT
TRACE = Kind.TRACE


def admission(session: Session) -> Steps:
    def before(args: tuple[Any, ...], _kwargs: dict[str, Any]) -> list[tuple[Any, int]]:
        # the engine's own guard: set on the first chunk, never again; a retracted request is not counted twice
        return [
            (req, dialects.device_prefix(req))
            for req in args[0].reqs
            if not getattr(req, "_cache_breakdown_computed", False) and not req.retracted_stain
        ]

    def after(first: list[tuple[Any, int]], _result: Any, _args: tuple[Any, ...], _kwargs: dict[str, Any]) -> None:
        for req, prefix in first:
            prompt = len(req.origin_input_ids)
            by_tier = (ABSENT, ABSENT, ABSENT)
            if getattr(req, "_cache_breakdown_computed", False):
                by_tier = (req.cached_tokens_device, req.cached_tokens_host, req.cached_tokens_storage)
            key = session.key(req.rid)
            session.first_tokens.admitted(key)
            session.write(
                ADMIT,
                key,
                prompt,
                *map(dialects.number, by_tier),
                dialects.number(getattr(req, "cached_tokens", None)),
                prompt - prefix,
                dialects.first_chunk(req),
            )
            parent = trace_context.of(req)
            if parent is not None:
                session.write(TRACE, key, *parent)

    return Steps(before, after)


TARGETS = (
    Target("sglang.srt.managers.schedule_batch", "ScheduleBatch", "prepare_for_extend", (("self",),), admission),
)
