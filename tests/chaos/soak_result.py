"""Whether a soak went well: what its minutes say, summed up and held against what was promised. Pure."""

from __future__ import annotations

from statistics import median
from typing import Any

Minute = dict[str, Any]

GROWTH_MIB = 8.0
"""What the sidecar's private memory may differ between the third and the last quarter of a soak."""
WRONG = ("contradicted", "not_observed")
"""Verdicts that an engine without faults never earns."""


def conclude(minutes: list[Minute]) -> dict[str, Any]:
    """``seconds``, ``processes`` (first, last, least and most of each figure), totals, and ``faults``."""
    last = minutes[-1]
    return {
        "seconds": last["seconds"],
        "processes": {name: _span(minutes, name) for name in last["processes"]},
        "growth_mib": {name: growth(minutes, name) for name in last["processes"]},
        "scrape_seconds": _scrapes(minutes),
        **{name: last[name] for name in ("records", "lost", "verdicts", "content", "requests", "load", "errors")},
        "alerts": sorted({alert for minute in minutes for alert in minute["prometheus"]["firing"]}),
        "faults": faults(minutes),
    }


def faults(minutes: list[Minute]) -> list[str]:
    """One sentence each; none: it went well."""
    last = minutes[-1]
    found = [f"{count:g} records lost ({reason})" for reason, count in last["lost"].items() if count]
    found += [
        f"{last['verdicts'].get(verdict, 0):g} requests {verdict}" for verdict in WRONG if last["verdicts"].get(verdict)
    ]
    found += ["content damaged"] if last["content"].get("damaged") else []
    found += [f"a fault in seam {seam}" for seam, count in last["seam_faults"].items() if count]
    found += [f"{what}: {count} times" for what, count in last["errors"].items()]
    found += [f"Prometheus missed a scrape, minute {n}" for n, m in enumerate(minutes, 1) if m["prometheus"]["up"] == 0]
    if not sum(last["records"].values()):
        found.append("no record was read at all")
    if growth(minutes, "sidecar") > GROWTH_MIB:
        found.append(f"the sidecar grew by {growth(minutes, 'sidecar'):.1f} MiB between third and last quarter")
    for name in last["processes"]:
        for figure in ("descriptors", "threads"):
            early, late = (figures(part, name, figure) for part in halves(minutes))
            if early and min(late) > max(early):
                found.append(f"{name} has {min(late):g} {figure} at least in the second half, {max(early):g} before")
    return found


def growth(minutes: list[Minute], process: str) -> float:
    """MiB of private memory between the third and the last quarter; 0 where there are fewer than four minutes."""
    quarter = len(minutes) // 4
    if not quarter:
        return 0.0
    late, latest = minutes[-2 * quarter : -quarter], minutes[-quarter:]
    before, after = (median(figures(part, process, "private_mib")) for part in (late, latest))
    return round(after - before, 2)


def halves(minutes: list[Minute]) -> tuple[list[Minute], list[Minute]]:
    half = len(minutes) // 2
    return minutes[:half], minutes[half:]


def figures(minutes: list[Minute], process: str, figure: str) -> list[float]:
    return [minute["processes"][process][figure] for minute in minutes]


def _span(minutes: list[Minute], process: str) -> dict[str, dict[str, float]]:
    spans = {}
    for figure in minutes[0]["processes"][process]:
        values = figures(minutes, process, figure)
        spans[figure] = {"first": values[0], "last": values[-1], "least": min(values), "most": max(values)}
    return spans


def _scrapes(minutes: list[Minute]) -> dict[str, float] | None:
    taken = [minute["scrape_seconds"] for minute in minutes if minute["scrape_seconds"]]
    if not taken:
        return None
    return {"median": median(one["median"] for one in taken), "longest": max(one["longest"] for one in taken)}
