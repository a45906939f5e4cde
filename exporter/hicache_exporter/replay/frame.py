"""What a recorded /metrics says, in the words of the live page: both show the same moment, and the same counts."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

from prometheus_client.parser import text_string_to_metric_families

from hicache_exporter import names

COUNTED = {
    "hit_tokens": names.HIT_TOKENS,
    "requests": names.REQUESTS,
    "transfer_tokens": names.TRANSFER_TOKENS,
    "transfers": names.TRANSFERS,
    "evicted_tokens": names.EVICTED_TOKENS,
    "load_backs": names.LOAD_BACKS,
    "verdicts": names.VERDICTS_TOTAL,
}
"""Families with one label beside the engine's."""
TTFT_SUM, TTFT_COUNT = f"{names.TTFT.name}_sum", f"{names.TTFT.name}_count"
ENGINE_UP = names.ENGINE_UP.series
SHOWN = (
    *(family.series for family in COUNTED.values()),
    names.COMPUTED_TOKENS.series,
    TTFT_SUM,
    TTFT_COUNT,
    names.ENGINE_CAPACITY.series,
    names.ENGINE_USED.series,
    names.ENGINE_EVICTABLE.series,
    ENGINE_UP,
)
_STARTS = tuple(f"{name}{sign}" for name in SHOWN for sign in "{ ")

Series = dict[str, dict[str, float]]
"""Name, then the value of the label that is not the engine's ("" without one)."""


def cards(text: str) -> dict[str, dict[str, Any]]:
    """For each engine that the frame names, what of its card (``overview``) the frame knows.

    Raises ValueError for a line that is no sample.
    """
    return {engine: _card(series) for engine, series in _by_engine(text).items()}


def _by_engine(text: str) -> dict[str, Series]:
    lines = "\n".join(line for line in text.splitlines() if line.startswith(_STARTS))
    found: dict[str, Series] = defaultdict(lambda: defaultdict(dict))
    for family in text_string_to_metric_families(lines + "\n"):
        for sample in family.samples:
            labels = dict(sample.labels)
            engine = labels.pop("engine", None)
            if engine is not None:
                found[engine][sample.name][next(iter(labels.values()), "")] = sample.value
    return found


def _card(series: Series) -> dict[str, Any]:
    card: dict[str, Any] = {
        "used_tokens": dict(series.get(names.ENGINE_USED.series, {})) or None,
        "cached_tokens": {"device": series.get(names.ENGINE_EVICTABLE.series, {}).get("")},
        "capacity_tokens": {tier: series.get(names.ENGINE_CAPACITY.series, {}).get(tier) for tier in names.TIERS[:2]},
        "counted": _counted(series) if names.HIT_TOKENS.series in series else None,
    }
    if ENGINE_UP in series:
        card["up"] = series[ENGINE_UP].get("") == 1
    return card


def _counted(series: Series) -> dict[str, Any]:
    counts = series.get(TTFT_COUNT, {})
    sums = series.get(TTFT_SUM, {})
    return {
        **{key: dict(series.get(family.series, {})) for key, family in COUNTED.items()},
        "computed_tokens": series.get(names.COMPUTED_TOKENS.series, {}).get("", 0),
        "ttft_mean_seconds": {tier: sums[tier] / count for tier, count in counts.items() if count and tier in sums},
    }
