"""The figures of docs/fleet.md: what was measured on one sidecar and on a simulated fleet, multiplied. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from form import Line, number

ENGINES, RANKS = 1000, 8
SCRAPE_SECONDS, EVALUATION_SECONDS = 15, 30
REQUESTS_A_SECOND = 10
KEPT = 0.02
NAMES = {
    "series": "series of an engine with 8 ranks on 8 GPUs",
    "rank": "series that one more rank with its GPU brings",
    "kilobytes": "size of that scrape",
    "ring": "recorder: bytes of the ring a request",
    "cores": "sidecar: processor time for 1,000 requests a second",
    "cores_spans": "the same with spans, none sampled away",
    "spans": "spans a request",
    "otlp": "OTLP bytes a request, not compressed",
    "memory": "Prometheus: resident memory a series",
    "samples": "Prometheus: processor time for 100,000 samples a second, without rules",
    "rules": "Prometheus: processor time of one evaluation of all recording rules and alerts",
}
Row = tuple[str, str, str]


def figures(lines: Iterable[Line]) -> dict[str, float]:
    """By the short names above. Raises ValueError if one was never measured."""
    known = {line.figure: line.value for line in lines if line.name == "fleet"}
    missing = [figure for figure in NAMES.values() if known.get(figure) is None]
    if missing:
        raise ValueError(f"docs/fleet.md needs figures that benchmarks/fleet.py has not taken: {', '.join(missing)}")
    return {name: known[figure] or 0.0 for name, figure in NAMES.items()}


def rendered(lines: Sequence[Line]) -> str:
    found = figures(lines)
    newest = [line for line in lines if line.name == "fleet"][-1]
    load = f", while other processes took {number(newest.others_cores)} cores of the machine" if newest.busy else ""
    source = (
        f"Measured by `{newest.command}` on {newest.date}{load};\nthe fleet's column is that, multiplied, not measured."
    )
    return "\n\n".join(
        [source, _table(("what", "one engine", f"{ENGINES:,} engines"), [*growth(found), *fleet(found)])]
    )


def growth(found: dict[str, float]) -> list[Row]:
    series = found["series"]
    return [
        ("series, 8 ranks on 8 GPUs", number(series), number(series * ENGINES)),
        ("of these, one more rank and its GPU", number(found["rank"]), ""),
        ("size of a scrape, not compressed", f"{number(found['kilobytes'])} kB", ""),
        ("ring, a request with an L2 read, each rank", f"{number(found['ring'])} bytes", ""),
        ("sidecar, processor time for 1,000 requests/s", f"{number(found['cores'])} cores", ""),
        ("the same with every span made", f"{number(found['cores_spans'])} cores", ""),
    ]


def fleet(found: dict[str, float]) -> list[Row]:
    samples = found["series"] / SCRAPE_SECONDS
    traffic = 8 * found["kilobytes"] * 1e3 / SCRAPE_SECONDS / 1e6
    spans = found["spans"] * REQUESTS_A_SECOND
    wire = found["otlp"] * REQUESTS_A_SECOND
    rules = found["rules"] / 1e3
    kept = f"{100 * KEPT:g} % kept"
    return [
        (f"samples a second, a scrape every {SCRAPE_SECONDS} s", number(samples), number(samples * ENGINES)),
        ("scrape traffic, not compressed", *_both(traffic, "Mbit/s")),
        ("Prometheus, resident memory", *_both(found["series"] * found["memory"] / 1e9, "GB")),
        ("Prometheus, processor time of scraping", *_both(samples / 1e5 * found["samples"], "cores")),
        ("one evaluation of the rules and alerts, processor time", *_both(rules, "s")),
        (f"the same, every {EVALUATION_SECONDS} s", *_both(rules / EVALUATION_SECONDS, "cores")),
        (f"spans a second at {REQUESTS_A_SECOND} requests/s an engine", number(spans), number(spans * ENGINES)),
        ("OTLP to the first collectors, not compressed", *_both(wire / 1e6, "MB/s")),
        (f"OTLP to Tempo, {kept}", *_both(wire * KEPT / 1e6, "MB/s")),
        (f"Tempo, a day of that, {kept}", *_both(wire * KEPT * 86_400 / 1e9, "GB")),
    ]


SMALLER = {"GB": "MB", "MB/s": "kB/s", "Mbit/s": "kbit/s", "cores": "thousandths of a core", "s": "ms"}


def _both(value: float, unit: str) -> tuple[str, str]:
    """Of one engine in the smaller unit."""
    return f"{number(1000 * value)} {SMALLER[unit]}", f"{number(value * ENGINES)} {unit}"


def _table(head: Row, rows: list[Row]) -> str:
    lines = [head, ("---", "--:", "--:"), *rows]
    return "\n".join("| " + " | ".join(row) + " |" for row in lines)
