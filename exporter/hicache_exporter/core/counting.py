"""How facts become counts. What a tier served is counted once a request, at its admission."""

from __future__ import annotations

from hicache_exporter import names
from hicache_exporter.core.decoding import Row, numbers
from hicache_exporter.core.observed import Sampled
from hicache_exporter.core.operations import ContentCheck, Move, Operation
from hicache_exporter.core.story import Story
from hicache_exporter.core.totals import Totals
from hicache_tracing.records import ABSENT, Direction, EvictCause, LoadBackOutcome

DIRECTION_NAMES = {int(one): one.name.lower() for one in Direction}
CAUSE_NAMES = {int(cause): cause.name.lower() for cause in EvictCause}
OUTCOME_NAMES = {int(outcome): outcome.name.lower() for outcome in LoadBackOutcome}
assert set(DIRECTION_NAMES.values()) == set(names.DIRECTIONS)
assert set(CAUSE_NAMES.values()) == set(names.CAUSES)


def admission(totals: Totals, story: Story, row: Row) -> None:
    """Count an admitted request and set the tier that served it."""
    prompt, device, host, storage, cached, computed, _, _ = numbers(row)
    if prompt > 0:
        totals.prompt_tokens += prompt
    if computed > 0:
        totals.computed_tokens += computed
    hits = served(device, host, storage, cached, story.loaded)
    for tier, tokens in hits.items():
        totals.hit_tokens[tier] += tokens
    if cached != ABSENT:
        unplaced = cached - sum(hits.values())
        totals.hit_difference["unplaced" if unplaced > 0 else "surplus"] += abs(unplaced)
    story.serving = _serving(hits, unknown=device == ABSENT and cached == ABSENT)
    totals.requests[story.serving] += 1
    totals.promised_tokens += story.promised
    totals.loaded_tokens += story.loaded or 0


def served(device: int, host: int, storage: int, cached: int, loaded: int | None) -> dict[str, int]:
    """Tokens by tier, as the engine attributes them.

    An engine before 0.5.20 credits the host with what was promised. What it then did not load (``loaded``, None where
    that was not observed) served nobody and is left out.
    """
    if device == ABSENT or host == ABSENT:
        return {"unattributed": cached} if cached > 0 else {}
    storage = max(storage, 0)
    if loaded is not None:
        host = min(host, max(loaded - storage, 0))
        storage = min(storage, loaded)
    return {tier: tokens for tier, tokens in (("device", device), ("host", host), ("storage", storage)) if tokens > 0}


def _serving(hits: dict[str, int], *, unknown: bool) -> str:
    if unknown:
        return "unattributed"
    if not hits:
        return "none"
    return next(iter(hits)) if len(hits) == 1 else "mixed"


def first_token(totals: Totals, story: Story, exemplar: Sampled | None) -> None:
    if story.ttft_seconds is not None:
        totals.ttft[story.serving].observe(story.ttft_seconds, exemplar)


def transfer_done(totals: Totals, move: Move, bytes_per_token: int | None, exemplar: Sampled | None) -> None:
    name = DIRECTION_NAMES.get(move.direction)
    if name is None:
        return
    if not move.finished:
        totals.transfers_dropped[name] += 1
        return
    tokens, size = move.volume(bytes_per_token)
    totals.transfers[name] += 1
    totals.transfer_tokens[name] += tokens
    totals.transfer_bytes[name] += size or 0
    if move.device_ns is not None:
        totals.transfer_seconds[name].observe(move.device_ns / 1e9, exemplar)
        totals.timed_bytes[name] += size or 0


def load_back(totals: Totals, outcome: int) -> None:
    name = OUTCOME_NAMES.get(outcome, "unknown")
    totals.load_backs[name if name in totals.load_backs else "unknown"] += 1


def eviction(totals: Totals, cause: int, tokens: int) -> None:
    name = CAUSE_NAMES.get(cause)
    if name is not None:
        totals.evicted_tokens[name] += max(tokens, 0)


def load_queued(totals: Totals, load: Operation) -> None:
    for share in load.read.shares if load.read is not None else ():
        totals.reuse_gap.observe(max(load.t_ns - share.backup.t_ns, 0) / 1e9)


def loads_finished(totals: Totals, move: Move) -> None:
    for load in move.operations:
        totals.load_back_wait.observe(max((move.done_ns or 0) - load.t_ns, 0) / 1e9)


def content(totals: Totals, check: ContentCheck) -> None:
    totals.content_tokens["matched"] += max(check.checked - check.mismatched, 0)
    totals.content_tokens["mismatched"] += max(check.mismatched, 0)
    totals.content_tokens["unseen"] += max(check.unseen, 0)
