"""Memory before and after, from who reports it."""

from __future__ import annotations

from hicache_proof.lab import machine
from hicache_proof.lab.engine import Reading

SCRAPE = b"""\
# TYPE hicache_gpu info
hicache_gpu_info{gpu="GPU-a",index="0",name="H200",bus_id="0",driver="580.159"} 1
# TYPE hicache_gpu_memory_used_bytes gauge
hicache_gpu_memory_used_bytes{gpu="GPU-a"} 1024
# TYPE hicache_host_memory_bytes gauge
hicache_host_memory_bytes{kind="available"} 4096
hicache_host_memory_bytes{kind="swap_free"} 0
# TYPE hicache_rank_memory_bytes gauge
hicache_rank_memory_bytes{engine="a:1",rank="tp0",kind="pinned"} 7
hicache_rank_memory_bytes{engine="b:2",rank="tp0",kind="pinned"} 9
"""


def compared(before=SCRAPE, after=SCRAPE):
    found = machine.compare(Reading(at_ns=0, host_used=1), Reading(at_ns=1, host_used=2), before, after, "a:1")
    return {line.name: (line.before, line.after) for line in found}


def test_what_engine_and_sidecar_report():
    assert compared() == {
        "L2 in use": (1, 2),
        "GPU GPU-a: memory in use": (1024, 1024),
        "host RAM available": (4096, 4096),
        "engine, rank tp0: memory pinned": (7, 7),
    }


def test_what_was_reported_only_once_is_missing_the_other_time():
    assert compared(before=None)["host RAM available"] == (None, 4096)


def test_without_a_sidecar_only_the_engine_speaks():
    assert compared(None, None) == {"L2 in use": (1, 2)}


def test_the_driver_is_told_where_there_is_a_gpu():
    assert machine.gpu_driver(SCRAPE) == "580.159"
    assert machine.gpu_driver(b"") is None
    assert machine.gpu_driver(None) is None


ENERGY = b'# TYPE hicache_gpu_energy_joules counter\nhicache_gpu_energy_joules_total{gpu="GPU-a"} %d\n'


def test_energy_is_what_the_counter_moved_by():
    (found,) = machine.energy(ENERGY % 1000, ENERGY % 1250)
    assert (found.gpu, found.joules) == ("GPU-a", 250)


def test_energy_that_nobody_measured_or_that_ran_backwards_is_not_zero():
    assert machine.energy(None, ENERGY % 1250) == ()
    assert machine.energy(ENERGY % 1250, ENERGY % 3) == ()
