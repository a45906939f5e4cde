"""The verdict on series E: was the prefix read from L3? Pure.

An L3 read passes through host memory, so it looks like an L2 read to every counter of load-backs. What tells them apart
are the slots: a prefetch from storage filled them, no backup from the device did.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from msgspec.structs import replace

from hicache_proof.lab.engine import EngineFacts
from hicache_proof.lab.run import Measured, Outcome, StorageRead

RULE = "storage-through-host"
Kind = Literal["storage", "storage_in_part", "claimed", "no_storage_read", "contradicted"]
_RANKING: tuple[Kind, ...] = ("contradicted", "no_storage_read", "claimed", "storage_in_part", "storage")
"""Weakest first: the series is as good as its weakest repetition."""
_ENDS = {
    "best_effort": "best_effort takes what has arrived by the time the request can be scheduled: on an idle engine "
    "next to nothing",
    "timeout": "timeout gives a prefetch up after a deadline that grows with its pages",
}


def conclude(
    reads: Sequence[Measured], facts: EngineFacts, prefix_tokens: int, emptied_by: Literal["flush", "load"]
) -> StorageRead:
    kinds = [_kind(read, prefix_tokens) for read in reads]
    weakest = min(kinds, key=_RANKING.index)
    deciding = reads[kinds.index(weakest)]
    return StorageRead(
        verdict=weakest,
        sentence=_sentence(weakest, deciding, kinds, facts),
        policy=facts.prefetch_policy,
        emptied_by=emptied_by,
    )


def combined(outcome: Outcome, read: StorageRead | None) -> Outcome:
    """Who asks for E wants it shown: without that the run exits 1, whatever C was."""
    return outcome if read is None or read.shown else replace(outcome, exit_code=1)


def _kind(read: Measured, prefix_tokens: int) -> Kind:
    if read.judgement.verdict == "contradicted":
        return "contradicted"
    claimed = tokens(read)
    if not claimed:
        return "no_storage_read"
    if read.judgement.rule != RULE or not _prefetched(read):
        return "claimed"
    page = read.evidence.page_size or 1
    return "storage" if claimed > prefix_tokens - page else "storage_in_part"


def tokens(read: Measured) -> int:
    """That the scheduler, else the reply, credits to L3."""
    account = read.evidence.attribution or read.reply.attribution
    return account.storage_tokens or 0


def _prefetched(read: Measured) -> bool:
    """The flight recorder saw a prefetch for this request whose tokens were used."""
    return any(event.get("kind") == "storage_prefetch" and event.get("used_tokens") for event in read.events)


def _sentence(kind: Kind, deciding: Measured, kinds: Sequence[Kind], facts: EngineFacts) -> str:
    policy = f"{facts.storage_backend}, prefetch policy {facts.prefetch_policy or 'not given'}"
    times, read = f"in {kinds.count(kind)} of {len(kinds)} repetitions", tokens(deciding)
    amount = f"{read:,} of {deciding.reply.prompt_tokens or 0:,} prompt tokens"
    if kind == "storage":
        return f"Storage: series E was read from L3 ({policy}) through host RAM: {amount}, {times}."
    ends = _ENDS.get(facts.prefetch_policy or "")
    because = f" {ends[0].upper()}{ends[1:]}." if ends else ""
    if kind == "storage_in_part":
        return f"Storage in part: series E was read from L3 ({policy}) only as far as {amount}, {times}.{because}"
    if kind == "claimed":
        return (
            f"Not proven: the engine credits L3 with {amount} of series E, but the flight recorder saw no prefetch "
            f"that filled the slots read ({policy})."
        )
    if kind == "contradicted":
        return f"Not proven: two witnesses disagree about series E. {deciding.judgement.reasons[0]}"
    return f"No storage read: series E was not served from L3 ({policy}), {times}.{because}"
