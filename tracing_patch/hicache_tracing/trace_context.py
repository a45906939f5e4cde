"""The trace context that SGLang's own tracing gives a request, so that our spans can hang below it."""

from __future__ import annotations

import sys
from typing import Any

SIGN = 1 << 63
WRAP = 1 << 64


def of(req: Any) -> tuple[int, int, int, int] | None:
    """(trace id high, trace id low, span id, sampled) as signed 64-bit numbers; None where tracing is off.

    Source: ``req.time_stats.trace_ctx.root_span_context`` (0.5.10+), ``tracing.trace.reqs_context[rid]`` before.
    ``tracing_enable`` is looked at first: a TraceNullContext answers anything with itself.
    """
    context = getattr(getattr(req, "time_stats", None), "trace_ctx", None)
    if context is not None:
        if getattr(context, "tracing_enable", False) is not True:
            return None
    else:
        older = sys.modules.get("sglang.srt.tracing.trace")
        context = getattr(older, "reqs_context", {}).get(req.rid)
    parent = getattr(context, "root_span_context", None)
    if not isinstance(parent, dict):
        return None
    for span in parent.values():
        read = getattr(span, "get_span_context", None)
        if read is not None:
            found = read()
            trace, identity = int(found.trace_id), int(found.span_id)
            return _signed(trace >> 64), _signed(trace % WRAP), _signed(identity), int(found.trace_flags) & 1
    return None


def _signed(value: int) -> int:
    return value - WRAP if value >= SIGN else value
