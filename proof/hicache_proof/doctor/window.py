"""What was counted between two looks at the same engine. Pure."""

from __future__ import annotations

from typing import TypeVar

from msgspec.structs import replace

from hicache_proof.chain.facts import ChainInput, Counted, Mean, Recorded

_COUNTED = (
    "requests",
    "prompt_tokens",
    "backup_tokens",
    "evicted_tokens",
    "load_back_tokens",
    "cached_device",
    "cached_host",
    "cached_storage",
    "cached_unattributed",
)
_RECORDED = (
    "requests",
    "promised_tokens",
    "loaded_tokens",
    "backups_refused",
    "demoted_tokens",
    "dropped_tokens",
    "host_evicted_tokens",
)

Facts = TypeVar("Facts", Counted, Recorded)


def between(before: ChainInput, after: ChainInput, seconds: float) -> ChainInput:
    """``after`` with its counters less those of ``before``; gauges and states stay those of now."""
    since = f"{seconds:.0f} s ago"
    counted, recorded = after.counted, after.recorded
    if counted is not None and before.counted is not None:
        counted = replace(_less(before.counted, counted, _COUNTED), since=since)
    if recorded is not None and before.recorded is not None:
        recorded = replace(_less(before.recorded, recorded, _RECORDED), since=since)
        recorded = _less_by_label(before.recorded, recorded)
    return replace(after, counted=counted, recorded=recorded, watched_seconds=seconds)


def of_this_engine(facts: ChainInput) -> ChainInput:
    """``facts`` without what the recorders of earlier runs of the engine told: the sidecar adds them all up."""
    recorded = facts.recorded
    if recorded is None or not recorded.engine_restarts:
        return facts
    unknown = dict.fromkeys(_RECORDED)
    return replace(facts, recorded=replace(recorded, **unknown, load_backs={}, ttft={}, load=None, lost_records=0))


def _less(before: Facts, after: Facts, names: tuple[str, ...]) -> Facts:
    return replace(after, **{name: _delta(getattr(before, name), getattr(after, name)) for name in names})


def _less_by_label(before: Recorded, after: Recorded) -> Recorded:
    return replace(
        after,
        load_backs={
            name: _delta(before.load_backs.get(name), count) or 0.0 for name, count in after.load_backs.items()
        },
        ttft={tier: _mean(before.ttft.get(tier), mean) for tier, mean in after.ttft.items()},
        load=None if after.load is None else _mean(before.load, after.load),
        lost_records=_delta(before.lost_records, after.lost_records) or 0.0,
    )


def _mean(before: Mean | None, after: Mean) -> Mean:
    before = before or Mean(count=0, total=0)
    if after.count < before.count:
        return after
    return Mean(count=after.count - before.count, total=after.total - before.total)


def _delta(before: float | None, after: float | None) -> float | None:
    """A counter that has fallen started anew; one that has appeared started at zero."""
    if after is None or before is None or after < before:
        return after
    return after - before
