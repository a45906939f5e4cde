"""The table of known issues: well-formed, and filtered by what the engine is."""

from __future__ import annotations

import re

import pytest

from hicache_proof.chain.facts import ChainInput
from hicache_proof.chain.known_issues import all_issues, issues_of, release_of

from .engines import engine


def ids(facts: ChainInput) -> set[str]:
    return {issue.id for issue in issues_of(facts)}


def test_every_entry_is_whole() -> None:
    assert len({issue.id for issue in all_issues()}) == len(all_issues()) > 20
    for issue in all_issues():
        assert issue.says.endswith(".")
        assert issue.do
        assert issue.refs or issue.basis in ("source", "observed")
        assert not (issue.refs and issue.basis == "observed")
        assert all(re.fullmatch(r"[\w.-]+/[\w.-]+#\d+", ref) for ref in issue.refs)
        assert all(release_of(bound) for bound in (issue.since, issue.before) if bound is not None)


@pytest.mark.parametrize(
    ("version", "listed"),
    [("0.5.19", True), ("0.5.19.post2", True), ("0.5.20", False), ("0.5.23", False), (None, True), ("main", True)],
)
def test_a_release_has_its_issues_and_an_unknown_one_has_all(version: str | None, listed: bool) -> None:
    assert ("declined-load-credited" in ids(engine({"version": version}))) is listed


def test_an_issue_begins_with_a_release() -> None:
    assert "hybrid-never-matched" in ids(engine({"version": "0.5.19"}, {"hybrid": True}))
    assert "hybrid-never-matched" not in ids(engine({"version": "0.5.18"}, {"hybrid": True}))


@pytest.mark.parametrize(
    ("issue", "changes"),
    [
        ("counters-times-ranks", {"tp_size": 4}),
        ("multi-tokenizer-split", {"tokenizer_workers": 2}),
        ("cached-tokens-speculative", {"speculative": True}),
        ("both-sides-count", {"disaggregation": "decode"}),
        ("short-storage-hits", {"storage_backend": "file"}),
        ("selective-counts-twice", {"write_policy": "write_through_selective"}),
        ("context-parallel-gauges", {"context_parallel": 2}),
        ("sparse-attention-load", {"attention_backend": "nsa"}),
        ("size-is-per-rank", {"tp_size": 2}),
        ("numa", {"device": "cuda"}),
    ],
)
def test_an_issue_is_listed_only_where_its_condition_is_met(issue: str, changes: dict[str, object]) -> None:
    plain = {"version": "0.5.12", "context_parallel": 1, "attention_backend": "fa3", "device": "cpu"}
    assert issue in ids(engine({**plain, **changes}))
    assert issue not in ids(engine(plain))


@pytest.mark.parametrize(
    ("version", "storage", "listed"), [("0.5.23", "file", True), ("0.5.23", None, False), ("0.5.20", "file", False)]
)
def test_a_flush_ends_the_scheduler_only_of_newer_engines_with_storage(
    version: str, storage: str | None, listed: bool
) -> None:
    assert ("flush-ends-scheduler" in ids(engine({"version": version, "storage_backend": storage}))) is listed


@pytest.mark.parametrize("issue", ["context-parallel-gauges", "sparse-attention-load", "numa"])
def test_a_condition_that_nobody_tells_counts_as_met(issue: str) -> None:
    assert issue in ids(engine({"version": "0.5.23"}))


@pytest.mark.parametrize(("host", "listed"), [(30_000, True), (None, True), (65_536, False)])
def test_a_host_pool_is_called_small_only_if_it_is_or_may_be(host: int | None, listed: bool) -> None:
    assert ("small-host-pool" in ids(engine(counted={"host_capacity": host}))) is listed


def test_issues_of_hybrid_models_are_listed_for_hybrid_models() -> None:
    assert "hybrid-wrong-answers" in ids(engine(counted={"hybrid": True}))
    assert "hybrid-wrong-answers" not in ids(engine())


def test_of_an_engine_that_says_nothing_nothing_is_said() -> None:
    assert ids(ChainInput()) == set()
