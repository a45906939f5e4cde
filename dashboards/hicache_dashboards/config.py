"""The thresholds file, typed. The only place where the rules, alerts and boards get a number from."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable
from importlib import resources
from typing import Annotated, Any

import msgspec

from hicache_exporter.names import TTFT_BUCKETS

Duration = Annotated[str, msgspec.Meta(pattern=r"^([0-9]+(ms|s|m|h|d|w|y))+$")]
Ratio = Annotated[float, msgspec.Meta(ge=0, le=1)]
Positive = Annotated[float, msgspec.Meta(gt=0)]


class SettingError(ValueError):
    """A setting that does not exist or does not fit; the message says which and why."""


class _Section(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    pass


class Scrape(_Section, frozen=True):
    job: str
    interval: Duration


class Links(_Section, frozen=True):
    runbook: str
    grafana: str


class Windows(_Section, frozen=True):
    evaluation: Duration
    recent: Duration
    trend: Duration
    baseline: Duration
    season: Duration
    sustained: Duration
    brief: Duration
    event: Duration


class Traffic(_Section, frozen=True):
    prompt_tokens_per_second: Positive
    requests_per_second: Positive
    moved_tokens_per_trend: Positive
    load_backs_per_trend: Positive
    transfer_bytes_per_second: Positive


class HitRate(_Section, frozen=True):
    drop: Ratio
    floor: Ratio
    objective: Ratio


class Ttft(_Section, frozen=True):
    regression: Positive
    least_increase_seconds: Positive
    target_seconds: Positive
    objective: Ratio

    def __post_init__(self) -> None:
        if self.target_seconds not in TTFT_BUCKETS:
            bounds = ", ".join(f"{bound:g}" for bound in TTFT_BUCKETS)
            raise ValueError(f"ttft.target_seconds must be a bucket bound of the histogram: {bounds}")


class Burn(_Section, frozen=True):
    fast_long: Duration
    fast_short: Duration
    fast_rate: Positive
    slow_long: Duration
    slow_short: Duration
    slow_rate: Positive


class L2(_Section, frozen=True):
    yield_window: Duration
    least_yield: Ratio
    turnover_per_trend: Positive
    declined: Ratio
    destroyed: Ratio
    pool_full: Ratio
    bandwidth: Ratio


class Machine(_Section, frozen=True):
    gpu_memory_headroom: Ratio
    host_memory_headroom: Ratio
    cgroup_headroom: Ratio
    memory_pressure: Ratio
    pinned: Ratio
    report_age_seconds: Positive


class Storage(_Section, frozen=True):
    least_fetched: Ratio
    timeouts: Ratio


class Settings(_Section, frozen=True):
    scrape: Scrape
    links: Links
    windows: Windows
    traffic: Traffic
    hit_rate: HitRate
    ttft: Ttft
    burn: Burn
    l2: L2
    machine: Machine
    storage: Storage


def text() -> str:
    """The thresholds file, with its comments."""
    return resources.files(__package__).joinpath("thresholds.toml").read_text(encoding="utf-8")


def load(overrides: Iterable[str] = ()) -> Settings:
    """The thresholds file with ``section.key=value`` overrides on top. Raises SettingError."""
    tree = tomllib.loads(text())
    for override in overrides:
        _apply(tree, override)
    try:
        return msgspec.convert(tree, Settings, strict=False)
    except msgspec.ValidationError as error:
        raise SettingError(str(error)) from error


def _apply(tree: dict[str, Any], override: str) -> None:
    path, equals, value = override.partition("=")
    section, dot, key = path.partition(".")
    if not (equals and dot):
        raise SettingError(f"{override!r} is not of the form section.key=value (--list prints all that there are)")
    if key not in tree.get(section, {}):
        known = ", ".join(f"{s}.{k}" for s, keys in tree.items() for k in keys)
        raise SettingError(f"there is no setting {path!r}; known are {known}")
    tree[section][key] = value
