"""What stands around the caches, from the engine's own words and the sidecar's /metrics."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from hicache_proof.lab import surroundings

from .test_plan import H200, made

GIB = 1 << 30
SCRAPE = {
    'hicache_host_memory_bytes{kind="total"}': 100 * GIB,
    'hicache_host_memory_bytes{kind="available"}': 40 * GIB,
    'hicache_rank_cgroup_memory_bytes{engine="a:1",rank="tp0",kind="limit"}': 64 * GIB,
    'hicache_rank_cgroup_memory_bytes{engine="a:1",rank="tp0",kind="current"}': 24 * GIB,
    'hicache_rank_l2_pinned_bytes{engine="a:1",rank="tp0"}': 11 * GIB,
    'hicache_rank_l2_configured_bytes{engine="a:1",rank="tp0"}': 11 * GIB,
    'hicache_rank_l2_configured_bytes{engine="b:2",rank="tp0"}': 99 * GIB,
    'hicache_rank_memory_node_ratio{engine="a:1",rank="tp0",node="1"}': 0.98,
    'hicache_gpu_numa_node{gpu="GPU-a"}': 1,
}


def found(facts=H200, **changed):
    """``changed``: series by the part of its name that tells it, to its value, or None to leave it out."""
    lines = []
    for series, value in SCRAPE.items():
        part = next((part for part in changed if part in series.replace('"', "")), None)
        number = value if part is None else changed[part]
        if number is not None:
            lines.append(f"{series} {number}")
    seen = surroundings.scrape("\n".join([*lines, ""]).encode(), "a:1")
    return {check.name: check for check in surroundings.checks(facts, made(facts), seen)}


def test_free_host_memory_stands_beside_the_limit_with_the_arithmetic():
    check = found()["host memory"]
    assert check.state == "passed"
    assert check.says == (
        "40.0 GiB of the machine's 100.0 GiB available; rank tp0: limit 64.0 GiB - 24.0 GiB in use = 40.0 GiB left"
    )


@pytest.mark.parametrize("changed", [{"kind=available": GIB}, {"kind=current": 63 * GIB}])
def test_little_memory_left_is_a_warning(changed):
    assert found(**changed)["host memory"].state == "warning"


def test_a_cgroup_without_a_limit_is_said_to_have_none():
    assert "rank tp0: no limit on its cgroup" in found(**{"kind=limit": None})["host memory"].says


def test_all_of_l2_pinned_passes_and_less_is_a_warning():
    assert found()["pinning"].says == "rank tp0: 11.0 GiB pinned, L2 configured 11.0 GiB"
    assert found()["pinning"].state == "passed"
    assert found(l2_pinned=5 * GIB)["pinning"].state == "warning"


def test_an_engine_on_the_cpu_pins_nothing_and_need_not():
    check = found(replace(H200, device="cpu"), l2_pinned=0)["pinning"]
    assert check.state == "passed"
    assert "pins nothing" in check.says


def test_nodes_of_memory_and_gpu_are_named():
    assert found()["NUMA"].says == "rank tp0: 98% of its L2 sample on node 1; GPU GPU-a is on node 1"


def test_what_nobody_reports_is_unknown_not_zero():
    unknown = {check.name: check for check in surroundings.checks(H200, made(), surroundings.scrape(None, "a:1"))}
    for name in ("host memory", "pinning", "NUMA"):
        assert (unknown[name].state, unknown[name].says[:9]) == ("warning", "not known")


@pytest.mark.parametrize(
    ("facts", "name", "says"),
    [
        (replace(H200, tp_size=2), "ranks", "tensor 2 x pipeline 1 = 2 of one replica; data 1"),
        (H200, "prefill", "in chunks of 8,192: 1 to compute when cold"),
        (replace(H200, chunked_prefill_tokens=None), "prefill", "does not cut prompts"),
        (H200, "L3", "no storage backend attached"),
        (
            replace(H200, storage_backend="file", prefetch_policy="timeout"),
            "L3",
            "file attached, prefetch policy timeout",
        ),
    ],
)
def test_what_the_engine_says_of_itself(facts, name, says):
    assert says in found(facts)[name].says


def test_unknown_nodes_are_no_warning_where_there_is_no_gpu():
    on_cpu = surroundings.checks(replace(H200, device="cpu"), made(), surroundings.scrape(None, "a:1"))
    assert {check.name: check.state for check in on_cpu}["NUMA"] == "passed"
