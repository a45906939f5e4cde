"""The token amounts that the witnesses put a figure on, each taken from one witness only.

``None`` always means that this witness gave no figure. Nothing here fills a figure in from another witness.
"""

from __future__ import annotations

from collections.abc import Iterator

from hicache_proof.evidence import Attribution, Evidence, Transfer


def counted_transfers(evidence: Evidence) -> tuple[Transfer, ...] | None:
    """Transfers that can have served the first token: one queued after it belongs to a later prefill."""
    if evidence.transfers is None:
        return None
    until = evidence.first_token_ns
    return tuple(t for t in evidence.transfers if until is None or t.submitted_ns <= until)


def moved(evidence: Evidence) -> int | None:
    """Host tokens put on their way to the device for this request, finished or not."""
    transfers = counted_transfers(evidence)
    return None if transfers is None else sum(t.request_tokens for t in transfers)


def through_host(account: Attribution) -> int | None:
    """Tokens that the engine says came out of host memory: L2 hits, and L3 pages staged there."""
    return None if account.host_tokens is None else account.host_tokens + (account.storage_tokens or 0)


def read(evidence: Evidence) -> int | None:
    """Size of the read: as seen moving, else as the engine accounts it, else unknown."""
    seen = moved(evidence)
    return seen if seen is not None else next((through_host(account) for _, account in accounts(evidence)), None)


def from_storage(evidence: Evidence) -> int | None:
    """Tokens that the engine says came from L3; None if it gave no such figure."""
    return next((a.storage_tokens for _, a in accounts(evidence) if a.storage_tokens is not None), None)


def slack(evidence: Evidence) -> int:
    """Amounts that differ by less than a page agree: the tree works in whole pages."""
    return max((evidence.page_size or 1) - 1, 0)


def exceeds(amount: int, other: int, slack: int) -> bool:
    """``amount`` is more than ``other`` by a page or more; some and none never agree."""
    return amount > other + slack or (amount > 0 and other == 0)


def accounts(evidence: Evidence) -> Iterator[tuple[str, Attribution]]:
    """The engine's accounts of cached tokens that there are: the scheduler's, the reply's."""
    for name, account in (("attribution", evidence.attribution), ("reply", evidence.reply)):
        if account is not None:
            yield name, account
