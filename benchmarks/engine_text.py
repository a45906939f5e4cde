"""Reading an engine's /metrics: the sidecar's reader against prometheus-client's parser, in one run.

    python benchmarks/engine_text.py [CAPTURE.txt ...]

Without a capture it reads the recorded answers in tests/exporter/engine/captures. Before anything is timed, both
readers must give the same values, on every capture. Times are medians; each repeat times both, one after the other.
"wanted" reads what the sidecar needs and skips the rest; "all" reads every sample, as the parser does.
"""

from __future__ import annotations

import gc
import math
import statistics
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path

import form
from prometheus_client.parser import text_string_to_metric_families

from hicache_exporter.core import engine_text
from hicache_exporter.core.engine_families import WANTED

CAPTURES = Path(__file__).parents[1] / "tests" / "exporter" / "engine" / "captures"
NEWEST = "0.5.23"
Values = dict[tuple[str, tuple[tuple[str, str], ...]], object]


def by_parser(text: str, wanted: Mapping[str, str]) -> Values:
    samples = (s for family in text_string_to_metric_families(text) for s in family.samples if s.name in wanted)
    return {(wanted[s.name], tuple(sorted(s.labels.items()))): comparable(s.value) for s in samples}


def by_reader(body: bytes, wanted: Mapping[str, str]) -> Values:
    samples = engine_text.read(body, wanted).samples
    return {(n, tuple(sorted(s.labels.items()))): comparable(s.value) for n, all_ in samples.items() for s in all_}


def comparable(value: float) -> object:
    return "NaN" if math.isnan(value) else float(value)


def timed_ms(run: Callable[[], object]) -> float:
    """Without the garbage collector, as timeit does: its passes would be charged to whoever runs when they fall due."""
    gc.collect()
    gc.disable()
    started = time.perf_counter()
    run()
    took = (time.perf_counter() - started) * 1e3
    gc.enable()
    return took


def measure(path: Path, repeats: int) -> dict[str, object]:
    body = path.read_bytes()
    text = body.decode()
    every = {s.name: s.name for family in text_string_to_metric_families(text) for s in family.samples}
    same = all(by_parser(text, names) == by_reader(body, names) for names in (WANTED, every))
    runs = {
        "parser": lambda: list(text_string_to_metric_families(text)),
        "wanted": lambda: engine_text.read(body, WANTED),
        "all": lambda: engine_text.read(body, every),
    }
    times: dict[str, list[float]] = {name: [] for name in runs}
    for _ in range(repeats):
        for name, run in runs.items():
            times[name].append(timed_ms(run))
    result = {name: statistics.median(values) for name, values in times.items()}
    return {
        "capture": path.stem,
        "kb": round(len(body) / 1024, 1),
        "same_values": same,
        **{f"{name}_ms": round(value, 3) for name, value in result.items()},
        "ratio_wanted": round(result["parser"] / result["wanted"], 1),
        "ratio_all": round(result["parser"] / result["all"], 1),
    }


def main() -> int:
    options = form.options(__doc__)
    options.add_argument("captures", nargs="*", type=Path, default=sorted(CAPTURES.glob("*.txt")))
    options.add_argument("--repeats", type=int, default=30)
    given = options.parse_args()
    bench = form.Bench("engine_text", given.history)
    rows = [measure(path, given.repeats) for path in given.captures]
    print("".join(f"{column:>16}" for column in rows[0]))
    for row in rows:
        print("".join(f"{value!s:>16.16}" for value in row.values()))
    if not all(row["same_values"] for row in rows):
        print("these figures mean nothing: the two readers disagree", file=sys.stderr)
        return 1
    newest = [row for row in rows if str(row["capture"]).startswith(NEWEST)]  # older engines write a third of its text
    for row in newest:
        what = f"times faster than prometheus_client's parser, {row['capture']}"
        bench.add(what, float(str(row["ratio_wanted"])), "times", form.at_least(5), note=f"{row['kb']} kB")
    bench.add("captures on which both give the same values", len(rows), f"of {len(rows)}")
    return bench.end()


if __name__ == "__main__":
    sys.exit(main())
