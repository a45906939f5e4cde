"""The timeline of one request: its own records, and what had happened before to the blocks that it read."""

from __future__ import annotations

from typing import Any

from hicache_exporter.core.counting import CAUSE_NAMES, DIRECTION_NAMES, OUTCOME_NAMES
from hicache_exporter.core.decoding import KIND, T_NS, Row, named
from hicache_exporter.core.operations import Operation
from hicache_exporter.core.rank_ledger import RankLedger
from hicache_exporter.core.story import Story
from hicache_tracing.records import ABSENT, ContentMode, Kind, PrefetchOutcome, Tier

Event = dict[str, Any]
"""``at_ns`` (CLOCK_MONOTONIC), ``kind``, then the record's numbers under their names (None: the engine gave none)."""

MAX_EARLIER = 64

_WORDS: dict[str, dict[int, str]] = {
    "direction": DIRECTION_NAMES,
    "outcome": OUTCOME_NAMES,
    "cause": CAUSE_NAMES,
    "tier": {int(tier): tier.name.lower() for tier in Tier},
    "mode": {int(mode): mode.name.lower() for mode in ContentMode},
}
_PREFETCH_WORDS = {int(outcome): outcome.name.lower() for outcome in PrefetchOutcome}


def timeline(ledger: RankLedger, story: Story) -> list[Event]:
    """In order of time. Events of others carry ``earlier``: true and, where it is known, whose they were."""
    return sorted([*map(_event, story.events), *_earlier(ledger, story)], key=lambda event: event["at_ns"])


def _event(row: Row) -> Event:
    kind = Kind(row[KIND])
    event: Event = {"at_ns": row[T_NS], "kind": kind.name.lower()}
    for name, value in named(row).items():
        words = _PREFETCH_WORDS if (kind, name) == (Kind.STORAGE_PREFETCH, "outcome") else _WORDS.get(name)
        event[name] = None if value == ABSENT else value if words is None else words.get(value, value)
    return event


def _earlier(ledger: RankLedger, story: Story) -> list[Event]:
    backups: dict[Operation, None] = {}
    events: dict[tuple[int, int], Event] = {}
    for load in story.loads:
        if load.read is None:
            continue
        backups.update(dict.fromkeys(share.backup for share in load.read.shares))
        for node, departure in load.read.departures:
            events[node, departure.t_ns] = {
                "at_ns": departure.t_ns,
                "kind": "evict",
                "earlier": True,
                "tier": "device",
                "cause": "demoted",
                "node_id": node,
                "tokens": departure.tokens,
            }
    told = [event for backup in list(backups)[:MAX_EARLIER] for event in _backup(ledger, backup)]
    return [*told, *list(events.values())[:MAX_EARLIER]]


def _backup(ledger: RankLedger, backup: Operation) -> list[Event]:
    whose = {"earlier": True, "request_id": ledger.request_id(backup.rid) or None}
    about = {"node_id": backup.node, "tokens": backup.tokens, "operation_id": backup.identifier}
    events: list[Event] = [{"at_ns": backup.t_ns, "kind": "backup", **whose, **about}]
    move = backup.move
    if move is not None and move.done_ns is not None:
        ended = {"transfer_id": move.identifier, "direction": "device_to_host", "finished": int(bool(move.finished))}
        tokens, size = move.volume(ledger.identity.bytes_per_token)
        amounts = {"tokens": tokens, "bytes": size, "device_ns": move.device_ns}
        events.append({"at_ns": move.done_ns, "kind": "transfer_done", **whose, **ended, **amounts})
    return events
