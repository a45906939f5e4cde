"""Whether the prefix has reached L2, by who counts it."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from hicache_proof.lab import backup
from hicache_proof.lab.backup import Backups, Count
from hicache_proof.lab.engine import Reading
from hicache_proof.lab.errors import PreconditionError

from .test_plan import H200, made

PLAN = made()
COUNTING = Reading(at_ns=0, backup_tokens=100, host_used=500)
OLD = Reading(at_ns=0, host_used=500)
OLDER = Reading(at_ns=0)


def counted(start, now, recorded=(None, None)):
    readings, records = iter((start, now)), iter(recorded)
    return Backups(lambda: next(readings), lambda: next(records)).count()


def test_the_engine_s_own_counter_comes_first():
    assert counted(COUNTING, replace(COUNTING, backup_tokens=1100)) == (1000, "the engine's backup counter")


def test_then_the_flight_recorder():
    assert counted(OLD, replace(OLD, host_used=9), (50.0, 1050.0)) == (1000, "the flight recorder")


def test_a_recorder_that_counts_from_the_first_backup_on_began_at_zero():
    assert counted(OLD, OLD, (None, 1000.0)) == (1000, "the flight recorder")


def test_then_the_growth_of_the_host_pool():
    assert counted(OLD, replace(OLD, host_used=1500)) == (1000, "growth of the host pool")


def test_where_nobody_counts_it_stays_unverified():
    count = counted(OLDER, OLDER)
    assert count.tokens is None
    assert backup.verify(count, 1000, H200, PLAN).startswith("not verified")


def test_the_copy_is_waited_for():
    readings = iter([COUNTING, COUNTING, COUNTING, replace(COUNTING, backup_tokens=1100)])
    assert Backups(lambda: next(readings), lambda: None).wait(1000, seconds=5).tokens == 1000


def test_but_not_for_ever():
    assert Backups(lambda: COUNTING, lambda: None).wait(1000, seconds=0.1).tokens == 0


def test_enough_is_said_with_its_source():
    says = backup.verify(Count(1000, "the flight recorder"), 1000, H200, PLAN)
    assert says == "1,000 tokens backed up to L2, 1,000 needed (the flight recorder)"


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
        backup.verify(Count(50, "the engine's backup counter"), 1000, facts, plan)
