"""Tokens reused, bytes moved, bandwidth and energy: from who measured them, or a dash."""

from __future__ import annotations

from msgspec.structs import replace

from hicache_proof.lab.run import Energy
from hicache_proof.report import movement, view

from ..evidences import transfer
from ..lab.fake_engine import BYTES_PER_TOKEN


def rows(run):
    return {row.series: row for row in movement.rows(run)}


def test_each_series_shows_its_tier_and_what_moved(everything):
    found = rows(everything)
    read = sum(view.account(one).host_tokens for one in everything.of("C"))
    assert found["C"].reused == f"L2 {read:,}"
    assert found["C"].moved == movement.size(read * BYTES_PER_TOKEN)
    assert found["C"].speed.endswith(" GB/s")
    assert found["E"].reused.startswith("L3 ")
    assert (found["B"].moved, found["B"].speed) == ("nothing", view.DASH)


def test_a_transfer_that_nobody_timed_has_no_bandwidth(proven):
    untimed = tuple(
        replace(
            one, evidence=replace(one.evidence, transfers=(replace(one.evidence.transfers[0], device_seconds=None),))
        )
        if one.evidence.transfers
        else one
        for one in proven.requests
    )
    assert rows(replace(proven, requests=untimed))["C"].speed == view.DASH


def test_bytes_that_one_transfer_does_not_tell_leave_no_bandwidth():
    assert movement.speed([transfer(bytes=1000, device_seconds=0.5)]) == 2000
    assert movement.speed([transfer(bytes=1000, device_seconds=0.5), transfer(bytes=None, device_seconds=0.5)]) is None
    assert movement.speed([]) is None


def test_where_nobody_saw_transfers_none_is_claimed(unwatched):
    assert rows(unwatched)["C"].moved == view.DASH
    assert rows(unwatched)["B"].moved == view.DASH


def test_energy_is_of_the_whole_run_or_not_measured(proven):
    assert "nobody measured it" in movement.energy(proven)
    measured = movement.energy(replace(proven, energy=(Energy(gpu="GPU-a", joules=1234.4),)))
    assert "GPU GPU-a: 1,234 J" in measured
    assert "all series, loads and pauses together" in measured
    assert "either end may be of that much earlier" in measured
