"""What is remembered of a node's host copy is of this node as it is, or nothing."""

from __future__ import annotations

import pytest

from hicache_tracing import host_copies
from hicache_tracing.config import Settings
from hicache_tracing.host_copies import HostCopies
from hicache_tracing.records import MAX_RUNS, RUN
from hicache_tracing.seams.reset import reset
from hicache_tracing.session import Session

RUNS = 1, 1, RUN.pack(400, 100)


@pytest.fixture
def copies() -> HostCopies:
    found = HostCopies()
    found.remember(7, 100, RUNS)
    return found


def test_of_a_node_that_is_as_large_as_it_was(copies):
    assert copies.of(7, 100) == RUNS


def test_not_of_one_that_was_split(copies):
    assert copies.of(7, 60) is None


def test_not_of_another(copies):
    assert copies.of(8, 100) is None


def test_a_copy_made_anew_counts(copies):
    anew = 1, 1, RUN.pack(900, 100)
    copies.remember(7, 100, anew)
    assert copies.of(7, 100) == anew


def test_one_that_is_not_all_known_is_not_kept_and_leaves_no_older_one(copies):
    copies.remember(7, 100, (2, 0, RUN.pack(0, 1)))
    assert copies.of(7, 100) is None


def test_one_in_as_many_pieces_as_a_record_holds_is_kept(copies):
    scattered = MAX_RUNS, 1, RUN.pack(0, 1) * MAX_RUNS
    copies.remember(8, MAX_RUNS, scattered)
    assert copies.of(8, MAX_RUNS) == scattered
    assert copies.of(7, 100) == RUNS


def test_operations_of_no_node_are_not_kept(copies):
    copies.remember(-1, 100, RUNS)
    assert copies.of(-1, 100) is None


def test_there_is_a_bound_and_the_newest_is_within(copies, monkeypatch):
    monkeypatch.setattr(host_copies, "MAX_NODES", 5)
    for node in range(20):
        copies.remember(node, 100, RUNS)
        assert sum(copies.of(other, 100) is not None for other in range(20)) <= 5
        assert copies.of(node, 100) == RUNS


def test_pieces_are_bounded_over_all_nodes(copies):
    for node in range(100):
        copies.remember(node, MAX_RUNS, (MAX_RUNS, 1, bytes(RUN.size * MAX_RUNS)))
        kept = [found for other in range(100) if (found := copies.of(other, MAX_RUNS)) is not None]
        assert sum(len(packed) for _, _, packed in kept) <= host_copies.MAX_PACKED
        assert copies.of(node, MAX_RUNS) is not None
    assert len(kept) > 1


def test_a_reset_may_number_nodes_anew(tmp_path, copies):
    session = Session(Settings(folder=str(tmp_path), capacity=1024))
    session.tree, session.host_copies = object(), copies
    reset(session).before((object(),), {})
    assert copies.of(7, 100) == RUNS, "of another tree"
    reset(session).before((session.tree,), {})
    assert copies.of(7, 100) is None
