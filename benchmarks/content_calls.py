"""What comparisons cost the scheduler's thread of an engine that runs, from its ring.

    python benchmarks/content_calls.py --rings FOLDER [--what "0.5.23, 64 at once"]

The content witness notes with each comparison what it took the scheduler's thread to launch it; the transfer that it
belongs to says how many operations, loads of a node each, the engine had merged. FOLDER is the engine's
$HICACHE_WITNESS_DIR; its ring holds the newest 32,768 slots, so ask after the load that is meant, and before another.
"""

from __future__ import annotations

import os
import statistics
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

import form

from hicache_exporter.core.decoding import KIND, Row, named
from hicache_exporter.sources.ring import Ring
from hicache_exporter.sources.ring_file import RingRefusedError
from hicache_tracing.records import ContentMode, Kind


class Compared(NamedTuple):
    mode: ContentMode
    us: float
    operations: int
    rows: int
    mismatched: int
    unseen: int


def compared(rows: Iterable[Row]) -> list[Compared]:
    """The comparisons that were launched, of one ring; those whose transfer the ring has lost are left out."""
    operations: dict[int, int] = {}
    found = []
    for row in rows:
        if row[KIND] == Kind.TRANSFER:
            facts = named(row)
            operations[facts["transfer_id"]] = facts["operations"]
        elif row[KIND] == Kind.CONTENT:
            facts = named(row)
            merged = operations.get(facts["transfer_id"], 0)
            if facts["cost_ns"] > 0 and merged:
                counts = facts["checked"], facts["mismatched"], facts["unseen"]
                found.append(Compared(ContentMode(facts["mode"]), facts["cost_ns"] / 1e3, merged, *counts))
    return found


def read(folder: Path) -> list[Compared]:
    at = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    found: list[Compared] = []
    try:
        for path in sorted(folder.glob("*.ring")):
            ring, rows, behind = Ring(path.name, at, os.geteuid()), [], 1
            while behind:
                part = ring.read()
                rows += part.rows
                behind = part.behind
            found += compared(rows)
    finally:
        os.close(at)
    return found


def report(bench: form.Bench, what: str, found: list[Compared]) -> None:
    for mode in sorted({one.mode for one in found}):
        of_mode = [one for one in found if one.mode is mode]
        name = f"{what}: comparing, {mode.name.lower()}"
        operations = sum(one.operations for one in of_mode)
        took = [one.us for one in of_mode]
        wrong, unseen = sum(one.mismatched for one in of_mode), sum(one.unseen for one in of_mode)
        note = f"{len(took)} transfers of {operations} operations; {wrong} rows differ, {unseen} unseen"
        bench.add(f"{name}, an operation", sum(took) / operations, "µs an operation", form.at_most(60), note=note)
        spread = form.percentiles(took, 10, 90)
        bench.add(f"{name}, a transfer, median", statistics.median(took), "µs a transfer", percentiles=spread)


def main() -> int:
    options = form.options(__doc__)
    options.add_argument("--rings", required=True, type=Path, metavar="FOLDER")
    options.add_argument("--what", default="a running engine", help="that engine and its load, for the figures' names")
    options.add_argument("--gpu", help="what that engine runs on")
    given = options.parse_args()
    try:
        found = read(given.rings)
    except (OSError, RingRefusedError) as error:
        raise SystemExit(f"{given.rings}: {error}") from None
    if not found:
        raise SystemExit(f"no comparison in the rings of {given.rings}: was HICACHE_WITNESS_CONTENT set, and L2 read?")
    bench = form.Bench("content_calls", given.history, given.gpu, now=False)
    report(bench, given.what, found)
    return bench.end()


if __name__ == "__main__":
    sys.exit(main())
