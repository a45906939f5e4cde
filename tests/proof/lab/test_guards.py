"""Preconditions and negative controls, one at a time."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from hicache_proof.lab import guards
from hicache_proof.lab.engine import Reading
from hicache_proof.lab.errors import PreconditionError

from .test_plan import H200, made

START = Reading(at_ns=0, backup_tokens=100, host_used=500)
PLAN = made()


def backed_up(now, expected=1000, facts=H200, plan=PLAN):
    return guards.backed_up(START, now, expected, facts, plan)


def test_the_counter_says_that_the_prefix_is_in_l2():
    assert "1,000 tokens backed up" in backed_up(Reading(at_ns=1, backup_tokens=1100, host_used=500))


def test_an_engine_without_the_counter_is_judged_by_its_host_pool():
    start, now = replace(START, backup_tokens=None), Reading(at_ns=1, host_used=1500)
    assert "growth of the host pool" in guards.backed_up(start, now, 1000, H200, PLAN)


def test_an_engine_that_counts_neither_leaves_it_unverified():
    assert backed_up(Reading(at_ns=1)).startswith("not verified")


@pytest.mark.parametrize(
    ("facts", "plan", "reason"),
    [
        (
            H200,
            made(prefix=16_000, repetitions=2),
            r"longer than the chunked prefill size of 8,192; take --prefix-tokens",
        ),
        (replace(H200, write_policy="write_through_selective"), PLAN, "hit often enough"),
        (replace(H200, write_policy="write_back"), PLAN, "only when L1 evicts it"),
        (H200, PLAN, "is the host pool full"),
    ],
)
def test_a_missing_backup_comes_with_its_likely_reason(facts, plan, reason):
    with pytest.raises(PreconditionError, match=f"precondition failed: not backed up: 50 of 1,000.*{reason}"):
        backed_up(Reading(at_ns=1, backup_tokens=150), facts=facts, plan=plan)


def test_idle_means_nothing_runs_and_nothing_waits():
    assert guards.idle(Reading(at_ns=0, running=0, queued=0))
    assert guards.idle(Reading(at_ns=0))
    assert not guards.idle(Reading(at_ns=0, running=0, queued=1))
