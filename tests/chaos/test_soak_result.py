"""A soak that grew, lost or lied is told from one that did not."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from .soak_result import conclude, faults

Minutes = list[dict[str, Any]]
STEADY = {"rss_mib": 60.0, "private_mib": 40.0, "descriptors": 14, "threads": 5, "cpu_share": 0.02}


@pytest.fixture
def minutes() -> Minutes:
    return [
        {
            "seconds": 60.0 * number,
            "processes": {"scheduler": dict(STEADY), "sidecar": dict(STEADY)},
            "records": {"tp0": 1000.0 * number},
            "lost": {"torn": 0.0},
            "verdicts": {"corroborated": 10.0 * number, "contradicted": 0.0, "not_observed": 0.0},
            "content": {"intact": 10.0 * number, "damaged": 0.0},
            "requests": {"host": 10.0 * number},
            "seam_faults": {"admission": 0.0},
            "scrape_seconds": {"median": 0.03, "longest": 0.1 * number},
            "load": {"repeat": 10},
            "errors": {},
            "prometheus": {"up": 1.0, "firing": []},
        }
        for number in range(1, 13)
    ]


def test_a_steady_one_has_no_fault_and_is_summed_up(minutes: Minutes) -> None:
    minutes[3]["processes"]["sidecar"]["rss_mib"] = 61.0
    minutes[5]["prometheus"]["firing"] = ["HiCacheHitRateLow"]
    result = conclude(minutes)
    assert result["faults"] == []
    assert result["alerts"] == ["HiCacheHitRateLow"], "of a small engine's own life: told, no fault"
    assert result["seconds"] == 720
    assert result["processes"]["sidecar"]["rss_mib"] == {"first": 60, "last": 60, "least": 60, "most": 61}
    assert result["scrape_seconds"] == {"median": 0.03, "longest": pytest.approx(1.2)}


@pytest.mark.parametrize(
    ("path", "value", "told"),
    [
        (("lost", "torn"), 2.0, "2 records lost (torn)"),
        (("verdicts", "contradicted"), 1.0, "1 requests contradicted"),
        (("verdicts", "not_observed"), 1.0, "1 requests not_observed"),
        (("content", "damaged"), 1.0, "content damaged"),
        (("seam_faults", "admission"), 1.0, "a fault in seam admission"),
        (("errors", "ask: 500"), 3, "ask: 500: 3 times"),
        (("prometheus", "up"), 0.0, "Prometheus missed a scrape, minute 12"),
        (("records", "tp0"), 0.0, "no record was read at all"),
    ],
)
def test_what_is_wrong_at_the_end_is_told(minutes: Minutes, path: tuple[str, str], value: float, told: str) -> None:
    minutes[-1][path[0]][path[1]] = value
    assert faults(minutes) == [told]


def test_a_sidecar_that_grows_is_told(minutes: Minutes) -> None:
    for number, minute in enumerate(minutes):
        minute["processes"]["sidecar"]["private_mib"] += 4 * number
    assert faults(minutes) == ["the sidecar grew by 12.0 MiB between third and last quarter"]


@pytest.mark.parametrize("figure", ["descriptors", "threads"])
@pytest.mark.parametrize("process", ["scheduler", "sidecar"])
def test_descriptors_and_threads_that_stay_are_told(minutes: Minutes, process: str, figure: str) -> None:
    passing = copy.deepcopy(minutes)
    passing[8]["processes"][process][figure] += 1
    assert faults(passing) == [], "one that comes and goes is none"
    for minute in minutes[6:]:
        minute["processes"][process][figure] += 1
    assert len(faults(minutes)) == 1
