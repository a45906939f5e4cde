"""When what happened to one request, ready to be drawn: from the recorder's times and the client's. Pure.

All times are CLOCK_MONOTONIC. The client's are on the same clock only where lab and engine share a machine, which is
taken as given if they enclose the engine's, and otherwise the client's are left out.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec

from hicache_proof.evidence import Transfer
from hicache_proof.lab.run import Measured
from hicache_proof.report.view import tokens


class Event(msgspec.Struct, frozen=True, kw_only=True):
    """One row: an instant, or a span if it has an end. Times in nanoseconds since the timeline's start."""

    what: str
    detail: str
    who: str
    start_ns: int
    end_ns: int | None = None
    ends: str = "after"
    """What the end of the span means."""
    polled: bool = False
    """The span ends when somebody looked, not when it was over."""


class Timeline(msgspec.Struct, frozen=True, kw_only=True):
    before: tuple[Event, ...]
    """What had to have happened to the blocks before the request came (negative times)."""
    during: tuple[Event, ...]
    span_ns: int


def of(request: Measured) -> Timeline | None:
    """None if the recorder saw nothing of the request: there is no engine's time to draw."""
    start = _start(request)
    if start is None:
        return None
    during = tuple(sorted(_during(request, start), key=lambda event: event.start_ns))
    last = max((event.end_ns or event.start_ns for event in during), default=0)
    return Timeline(before=_before(request, start), during=during, span_ns=max(last, 1))


def one_clock(request: Measured) -> bool:
    """The client's times enclose the engine's, so both come from one machine's clock."""
    engine = [time for time in (_first_seen(request), request.evidence.first_token_ns) if time is not None]
    return bool(engine) and request.reply.sent_ns <= min(engine) and max(engine) <= request.reply.done_ns


def _first_seen(request: Measured) -> int | None:
    seen = request.evidence
    if seen.lookup is not None:
        return seen.lookup.at_ns
    return seen.admitted_ns


def _start(request: Measured) -> int | None:
    return request.reply.sent_ns if one_clock(request) else _first_seen(request)


def _before(request: Measured, start: int) -> tuple[Event, ...]:
    residency = request.evidence.residency
    if residency is None:
        return ()
    events = []
    if residency.backed_up_at_ns is not None:
        events.append(
            Event(
                what="backed up to L2",
                detail=f"{tokens(residency.backed_up_tokens)}, copy finished",
                who="recorder",
                start_ns=residency.backed_up_at_ns - start,
            )
        )
    if residency.left_device_at_ns is not None:
        left = residency.left_device_tokens
        events.append(
            Event(
                what="evicted from L1",
                detail="host copy kept" if left is None else f"{tokens(left)}, host copy kept",
                who="recorder",
                start_ns=residency.left_device_at_ns - start,
            )
        )
    return tuple(sorted(events, key=lambda event: event.start_ns))


def _during(request: Measured, start: int) -> list[Event]:
    seen, events = request.evidence, []
    if seen.lookup is not None:
        promised = f"promises {seen.lookup.device_tokens:,} tokens in L1, {seen.lookup.host_tokens:,} in L2"
        events.append(Event(what="lookup", detail=promised, who="scheduler", start_ns=seen.lookup.at_ns - start))
    if seen.load_back is not None:
        loaded = (
            f"{seen.load_back.loaded_tokens:,} of {seen.load_back.promised_tokens:,} tokens, {seen.load_back.outcome}"
        )
        at = seen.load_back.at_ns - start
        events.append(Event(what="load-back asked", detail=loaded, who="scheduler", start_ns=at))
    events.extend(_prefetches(request.events, start))
    events.extend(_transfer(transfer, start) for transfer in seen.transfers or ())
    if seen.admitted_ns is not None:
        computed = "" if seen.computed_tokens is None else f"{tokens(seen.computed_tokens)} left to compute"
        events.append(Event(what="admitted", detail=computed, who="scheduler", start_ns=seen.admitted_ns - start))
    if seen.first_token_ns is not None:
        at = seen.first_token_ns - start
        # recorded after process_batch_result, which sends the token out on its way
        done = "done with the prefill's batch; the token may be out already"
        events.append(Event(what="first token", detail=done, who="scheduler", start_ns=at))
    if one_clock(request):
        events.append(
            Event(
                what="time to first token",
                detail="sent until the first token arrived",
                who="client",
                start_ns=0,
                end_ns=request.reply.first_token_ns - start,
            )
        )
    return events


def _prefetches(events: Sequence[Mapping[str, Any]], start: int) -> Iterator[Event]:
    """From storage to the host: what was asked for and what came, joined by the operation."""
    asked: dict[Any, Mapping[str, Any]] = {}
    for event in events:
        if event.get("kind") != "storage_prefetch" or event.get("operation_id") is None:
            continue
        if event.get("outcome") == "asked":
            asked[event["operation_id"]] = event
            continue
        first = asked.pop(event["operation_id"], event)
        yield Event(
            what="prefetch L3 to L2",
            detail=f"{event.get('transferred_tokens') or 0:,} of {first.get('asked_tokens') or 0:,} tokens asked for, "
            f"{event.get('outcome')}",
            who="storage",
            start_ns=first["at_ns"] - start,
            end_ns=event["at_ns"] - start,
            ends="ended after",
        )


def _transfer(transfer: Transfer, start: int) -> Event:
    parts = [tokens(transfer.tokens)]
    if transfer.bytes is not None:
        parts.append(f"{transfer.bytes:,} bytes")
    if transfer.device_seconds is not None:
        parts.append(f"copied in {1e3 * transfer.device_seconds:.2f} ms (device clock)")
    if transfer.requests > 1:
        parts.append(f"shared by {transfer.requests} requests")
    return Event(
        what="transfer L2 to L1",
        detail=", ".join(parts),
        who="device",
        start_ns=transfer.submitted_ns - start,
        end_ns=None if transfer.finished_ns is None else transfer.finished_ns - start,
        ends="seen done after",
        polled=True,
    )
