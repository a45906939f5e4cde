"""Preconditions that a reading alone decides."""

from __future__ import annotations

import pytest

from hicache_proof.lab import guards
from hicache_proof.lab.engine import Reading
from hicache_proof.lab.errors import CannotRunError


@pytest.mark.parametrize(
    ("reading", "idle"),
    [
        (Reading(at_ns=0, running=0, queued=0), True),
        (Reading(at_ns=0), True),
        (Reading(at_ns=0, running=1, queued=0), False),
        (Reading(at_ns=0, running=0, queued=1), False),
    ],
)
def test_idle_means_that_nothing_runs_and_nothing_waits(reading, idle):
    assert guards.idle(reading) is idle


def test_an_engine_at_work_is_refused_with_the_way_out():
    with pytest.raises(CannotRunError, match=r"1 running, 2 queued.*--allow-traffic"):
        guards.quiet(Reading(at_ns=0, running=1, queued=2), "http://engine")
