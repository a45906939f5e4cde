"""How old a fact of the engine is when /metrics first tells it.

    python benchmarks/fact_to_metrics.py [--facts 100]

The real recorder, in this process, writes the records of a request that read L2; the real sidecar, another process, is
asked for /metrics again and again until the request is in its counters. The time is from the last of the records to the
last byte of that answer. A verdict needs all that the request's ranks tell, so it comes on its own: it is waited for in
the same way. Between two facts there is a pause of random length, in which the sidecar goes to rest.
"""

from __future__ import annotations

import random
import sys
import tempfile
import time
from collections.abc import Callable

import form
from engine_mix import IDENTITY, Mix
from sidecar import Sidecar, values

from hicache_tracing.recorder import Recorder

LONGEST_PAUSE = 1.5


def seen_after(sidecar: Sidecar, family: str, before: float) -> float | None:
    """Milliseconds from now until the family's sum has grown; None: not within ten seconds."""
    began = time.perf_counter()
    while time.perf_counter() - began < 10:
        if sum(values(sidecar.scrape()[1], family)) > before:
            return 1e3 * (time.perf_counter() - began)
    return None


def times(sidecar: Sidecar, record: Callable[[], object], facts: int) -> dict[str, list[float]]:
    chance = random.Random(1)
    found: dict[str, list[float]] = {"hicache_requests_total": [], "hicache_verdicts_total": []}
    for _ in range(facts):
        time.sleep(chance.uniform(0, LONGEST_PAUSE))
        text = sidecar.scrape()[1]
        before = {family: sum(values(text, family)) for family in found}
        record()
        began = time.perf_counter()
        for family, kept in found.items():
            took = seen_after(sidecar, family, before[family])
            if took is None:
                raise SystemExit(f"these figures mean nothing: {family} does not tell of a request")
            kept.append(took if family == "hicache_requests_total" else 1e3 * (time.perf_counter() - began))
    return found


def main() -> int:
    options = form.options(__doc__)
    options.add_argument("--facts", type=int, default=60)
    given = options.parse_args()
    bench = form.Bench("fact_to_metrics", given.history)
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        recorder = Recorder(folder, 32_768)
        recorder.identify({**IDENTITY, "seams": []})
        mix = Mix(recorder)
        with Sidecar([], folder) as sidecar:
            mix.request()
            found = times(sidecar, mix.request, given.facts)
    for family, kept in found.items():
        what = "a request's counters" if family == "hicache_requests_total" else "its verdict"
        figure = f"{what}, 99th percentile"
        spread = form.percentiles(kept, 50, 90)
        bench.add(figure, form.percentiles(kept, 99)["p99"], "ms", form.at_most(250), percentiles=spread)
    return bench.end()


if __name__ == "__main__":
    sys.exit(main())
