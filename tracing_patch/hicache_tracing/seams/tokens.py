"""A request's first token and its end."""

from __future__ import annotations

from typing import Any

from hicache_tracing import dialects
from hicache_tracing.guard import Steps
from hicache_tracing.records import Kind
from hicache_tracing.seams.base import Target, argument
from hicache_tracing.session import Session

FIRST_TOKEN = Kind.FIRST_TOKEN
FINISH = Kind.FINISH


def first_token(session: Session) -> Steps:
    """Scheduler.process_batch_result: requests of an extend batch that had no output token before, and have one now."""
    decode: Any = object()  # the mode of the last batch that was no prefill; the engine's modes are single objects

    def before(args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[Any]:
        nonlocal decode
        batch = argument(args, kwargs, 1, "batch")
        mode = batch.forward_mode
        if mode is decode:
            return []
        if not mode.is_extend():
            decode = mode
            return []
        return [req for req in batch.reqs if not len(req.output_ids)]

    def after(waiting: list[Any], _result: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        for req in waiting:
            if len(req.output_ids):
                received, started = dialects.request_times(req)
                key = session.key(req.rid)
                session.first_tokens.seen(key)
                session.write(
                    FIRST_TOKEN,
                    key,
                    len(req.origin_input_ids),
                    received,
                    started,
                    len(argument(args, kwargs, 1, "batch").reqs),
                )

    return Steps(before, after, gate=session.first_tokens.gate)


def finish(session: Session) -> Steps:
    """mem_cache.common.release_kv_cache: the request gives its KV row back; retraction does so too, unfinished."""

    def before(args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        req = argument(args, kwargs, 0, "req")
        if req.finished():
            key = session.key(req.rid)
            session.promised.pop(key, None)
            session.first_tokens.seen(key)
            session.write(
                FINISH,
                key,
                len(req.origin_input_ids),
                len(req.output_ids),
                int(dialects.aborted(req)),
                dialects.number(getattr(req, "retraction_count", None)),
            )

    return Steps(before)


TARGETS = (
    Target("sglang.srt.managers.scheduler", "Scheduler", "process_batch_result", (("self", "batch"),), first_token),
    Target("sglang.srt.mem_cache.common", "", "release_kv_cache", (("req", "tree_cache"),), finish),
)
