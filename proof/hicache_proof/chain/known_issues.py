"""Public issues of SGLang that the examined engine may have: a table (known_issues.toml), not code."""

from __future__ import annotations

import re
import tomllib
from functools import cache
from pathlib import Path
from typing import Literal

import msgspec

from hicache_proof.chain.facts import ChainInput, Configuration, Counted

TABLE = Path(__file__).with_name("known_issues.toml")

Condition = Literal[
    "tp",
    "dp",
    "hybrid",
    "speculative",
    "tokenizer_workers",
    "disaggregation",
    "storage",
    "write_back",
    "write_through_selective",
    "context_parallel",
    "sparse_attention",
    "small_host_pool",
    "gpu",
]
SPARSE = ("nsa", "dsa")
"""Attention backends of models with sparse attention, by their old and their new name."""
Release = tuple[int, int, int]


class KnownIssue(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """See the head of the table for what each field means."""

    id: str
    about: Literal["crash", "wrong_answers", "wrong_numbers", "not_used", "slow", "start"]
    says: str
    do: str
    basis: Literal["source", "report", "observed"]
    refs: tuple[str, ...]
    since: str | None = msgspec.field(name="from", default=None)
    before: str | None = None
    needs: tuple[Condition, ...] = ()


@cache
def all_issues() -> tuple[KnownIssue, ...]:
    with TABLE.open("rb") as file:
        return msgspec.convert(tomllib.load(file)["issue"], tuple[KnownIssue, ...])


def issues_of(facts: ChainInput) -> tuple[KnownIssue, ...]:
    """Those that this engine may have. A build without a version may have any; of an engine unseen nothing is said."""
    configuration = facts.configuration
    if configuration is None:
        return ()
    release = release_of(configuration.version)
    possible = (issue for issue in all_issues() if _has(release, issue))
    return tuple(issue for issue in possible if all(_met(facts, configuration, need) for need in issue.needs))


def release_of(version: str | None) -> Release | None:
    """``0.5.10.post1`` is (0, 5, 10); None for a build without such a version."""
    found = re.match(r"v?(\d+)\.(\d+)\.(\d+)", version or "")
    release = (int(found[1]), int(found[2]), int(found[3])) if found else (0, 0, 0)
    return release if any(release) else None


def _has(release: Release | None, issue: KnownIssue) -> bool:
    if release is None:
        return True
    since, before = release_of(issue.since), release_of(issue.before)
    return (since is None or since <= release) and (before is None or release < before)


def _met(facts: ChainInput, configuration: Configuration, condition: Condition) -> bool:
    return {
        "tp": configuration.tp_size * configuration.pp_size > 1,
        "dp": configuration.dp_size > 1,
        "hybrid": facts.counted is None or facts.counted.hybrid,
        "speculative": configuration.speculative,
        "tokenizer_workers": (configuration.tokenizer_workers or 1) > 1,
        "disaggregation": configuration.disaggregation not in (None, "null"),
        "storage": configuration.storage_backend is not None,
        "write_back": configuration.write_policy == "write_back",
        "write_through_selective": configuration.write_policy == "write_through_selective",
        "context_parallel": (configuration.context_parallel or 2) > 1,
        "sparse_attention": configuration.attention_backend in (None, *SPARSE),
        "small_host_pool": _small_host_pool(facts.counted),
        "gpu": configuration.device != "cpu",
    }[condition]


def _small_host_pool(counted: Counted | None) -> bool:
    """Also where it can't be told."""
    if counted is None or counted.host_capacity is None or counted.device_capacity is None:
        return True
    return counted.host_capacity < counted.device_capacity
