"""The run as a Chrome trace (trace event format), to be opened in Perfetto or chrome://tracing.

One track a party: the client's requests, the scheduler's events, the device's transfers. Times are microseconds since
the first request; only parties on the client's clock are placed beside it.
"""

from __future__ import annotations

from typing import Any

from hicache_proof.lab.run import LabRun, Measured
from hicache_proof.report import timeline

_PROCESS = 1
_TRACKS = {"client": 1, "scheduler": 2, "device": 3, "recorder": 4, "storage": 5}


def events(run: LabRun) -> dict[str, Any]:
    """The JSON document. Series, tokens and verdict are arguments of each request's slice."""
    start = min(request.reply.sent_ns for request in run.requests)
    made = [_name("process_name", 0, f"hicache-witness lab {run.salt}")]
    made += [_name("thread_name", track, who) for who, track in _TRACKS.items()]
    for request in run.requests:
        made.append(_request(request, start))
        if timeline.one_clock(request):
            made.extend(_engine(request, start))
    return {"traceEvents": made, "displayTimeUnit": "ms"}


def _name(kind: str, track: int, name: str) -> dict[str, Any]:
    return {"ph": "M", "pid": _PROCESS, "tid": track, "name": kind, "args": {"name": name}}


def _request(request: Measured, start: int) -> dict[str, Any]:
    reply, judgement = request.reply, request.judgement
    return _slice(
        f"{request.series} {request.repetition}",
        "client",
        reply.sent_ns - start,
        reply.done_ns - reply.sent_ns,
        {
            "request_id": reply.request_id,
            "prompt_tokens": reply.prompt_tokens,
            "cached_tokens": reply.cached_tokens,
            "ttft_ms": round(reply.ttft_seconds * 1e3, 3),
            "served_by": judgement.served_by,
            "verdict": judgement.verdict,
        },
    )


def _engine(request: Measured, start: int) -> list[dict[str, Any]]:
    found = timeline.of(request)
    if found is None:
        return []
    offset = request.reply.sent_ns - start
    return [
        _slice(
            event.what,
            event.who,
            offset + event.start_ns,
            None if event.end_ns is None else event.end_ns - event.start_ns,
            {
                "request_id": request.reply.request_id,
                "detail": event.detail,
                **({"ends": "at the poll that saw it finished"} if event.polled else {}),
            },
        )
        for event in (*found.before, *found.during)
        if event.who != "client" and offset + event.start_ns >= 0
    ]


def _slice(name: str, who: str, start_ns: int, duration_ns: int | None, arguments: dict[str, Any]) -> dict[str, Any]:
    """A complete event, or an instant if it has no duration."""
    event = {
        "name": name,
        "cat": "hicache",
        "pid": _PROCESS,
        "tid": _TRACKS[who],
        "ts": start_ns / 1e3,
        "args": arguments,
    }
    if duration_ns is None:
        return event | {"ph": "i", "s": "t"}
    return event | {"ph": "X", "dur": duration_ns / 1e3}
