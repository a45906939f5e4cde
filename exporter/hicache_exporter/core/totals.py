"""What one rank of one engine has counted since this sidecar began to watch. Only ever grows.

Kept for engine label and rank, not for a process: a restarted engine goes on where the last one stopped, so no
counter falls and none is counted twice.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from hicache_exporter import names
from hicache_exporter.core.observed import Histogram


def _zeros(labels: Iterable[str]) -> dict[str, int]:
    return dict.fromkeys(labels, 0)


def _histograms(labels: Iterable[str], family: names.Family) -> dict[str, Histogram]:
    return {label: Histogram(family.buckets) for label in labels}


@dataclass(slots=True)
class Totals:
    """Logical facts are counted on every rank and summed by the collectors over the ranks that lead."""

    prompt_tokens: int = 0
    computed_tokens: int = 0
    hit_tokens: dict[str, int] = field(default_factory=lambda: _zeros(names.ALL_TIERS))
    hit_difference: dict[str, int] = field(default_factory=lambda: _zeros(names.DIFFERENCES))
    requests: dict[str, int] = field(default_factory=lambda: _zeros(names.SERVING))
    ttft: dict[str, Histogram] = field(default_factory=lambda: _histograms(names.SERVING, names.TTFT))
    transfers: dict[str, int] = field(default_factory=lambda: _zeros(names.DIRECTIONS))
    transfer_tokens: dict[str, int] = field(default_factory=lambda: _zeros(names.DIRECTIONS))
    transfer_bytes: dict[str, int] = field(default_factory=lambda: _zeros(names.DIRECTIONS))
    timed_bytes: dict[str, int] = field(default_factory=lambda: _zeros(names.DIRECTIONS))
    transfer_seconds: dict[str, Histogram] = field(
        default_factory=lambda: _histograms(names.DIRECTIONS, names.TRANSFER_SECONDS)
    )
    transfers_dropped: dict[str, int] = field(default_factory=lambda: _zeros(names.DIRECTIONS))
    evicted_tokens: dict[str, int] = field(default_factory=lambda: _zeros(names.CAUSES))
    backups_refused: int = 0
    load_backs: dict[str, int] = field(default_factory=lambda: _zeros(names.OUTCOMES))
    promised_tokens: int = 0
    loaded_tokens: int = 0
    load_back_wait: Histogram = field(default_factory=lambda: Histogram(names.LOAD_BACK_WAIT.buckets))
    reuse_gap: Histogram = field(default_factory=lambda: Histogram(names.L2_REUSE_GAP.buckets))
    l2_lifetime: Histogram = field(default_factory=lambda: Histogram(names.L2_LIFETIME.buckets))
    resets: int = 0
    content_tokens: dict[str, int] = field(default_factory=lambda: _zeros(names.CONTENT_TOKEN_STATES))
    # health of the recorder
    records: int = 0
    lost: dict[str, int] = field(default_factory=lambda: _zeros(names.LOSS_REASONS))
    forgotten: dict[str, int] = field(default_factory=lambda: _zeros(names.FORGOTTEN))
