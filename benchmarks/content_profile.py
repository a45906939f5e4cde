"""When the content witness works: a profile of reads of L2, taken by the engine's own profiler (PyTorch's) on a GPU.

    python benchmarks/content_profile.py --engine http://127.0.0.1:30000 --l1 65536 [--picture docs/pictures/FILE.svg]

The engine runs on this machine with HICACHE_WITNESS_CONTENT=full. A prompt is computed, pushed out of L1 by others and
asked for again while the engine profiles itself. In its trace each kernel has a stream and its times on the GPU's
clock: the copies from the host, our comparison, and all others, which are the engine's own work. A comparison begins
when its copy has ended, on a stream of its own; had the engine to wait for it, none of its kernels would run meanwhile.
"""

from __future__ import annotations

import gzip
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Iterable, Sequence
from operator import attrgetter
from pathlib import Path
from typing import Any, NamedTuple

import form
import httpx
import matplotlib as mpl
from asking import VOCABULARY, ask, new_prompt
from matplotlib.figure import Figure

READS, ANSWER = 5, 4
COMPARE = "_compare"
LANES = {"copy L2 to L1": "#4c78a8", "the engine's own kernels": "#888888", "comparison": "#2a7f4f"}
AROUND = 0.25  # of the picture's width shown before the copy and after the comparison


class Kernel(NamedTuple):
    name: str
    stream: int
    begin: float
    """Microseconds on the trace's clock."""
    end: float


class Read(NamedTuple):
    """One transfer from the host and its comparison, with what else ran on the GPU; each in the order of beginnings."""

    copies: list[Kernel]
    comparison: Kernel
    others: list[Kernel]

    @property
    def gap_us(self) -> float:
        """From the end of the copy to the beginning of the comparison."""
        return self.comparison.begin - self.copies[-1].end

    @property
    def beside(self) -> float:
        """The share of the comparison's time in which a kernel of the engine's ran too."""
        begin, end = self.comparison.begin, self.comparison.end
        covered, reached = 0.0, begin
        for kernel in self.others:
            covered += max(0.0, min(kernel.end, end) - max(kernel.begin, reached))
            reached = max(reached, min(kernel.end, end))
        return covered / (end - begin)


def kernels(events: Iterable[dict[str, Any]]) -> list[Kernel]:
    """What ran on the GPU, from a trace's events (Chrome's format), in the order of beginnings."""
    found = [
        Kernel(event["name"], event["args"]["stream"], event["ts"], event["ts"] + event["dur"])
        for event in events
        if event.get("ph") == "X" and event.get("cat") in ("kernel", "gpu_memcpy")
    ]
    return sorted(found, key=attrgetter("begin"))


def reads(found: Sequence[Kernel]) -> list[Read]:
    """Each comparison with the copies on the stream that copied last before it: by kernels of SGLang's, or by CUDA."""
    comparisons = [kernel for kernel in found if kernel.name == COMPARE]
    ours = {kernel.stream for kernel in comparisons}
    engines = [kernel for kernel in found if kernel.stream not in ours]
    word = "transfer" if any("transfer" in kernel.name for kernel in engines) else "HtoD"
    copies = [kernel for kernel in engines if word in kernel.name]
    others = [kernel for kernel in engines if word not in kernel.name]
    told, since = [], float("-inf")
    for comparison in comparisons:
        before = [copy for copy in copies if since < copy.begin < comparison.begin]
        if before:
            its = [copy for copy in before if copy.stream == before[-1].stream]
            told.append(Read(its, comparison, others))
        since = comparison.end
    return told


def profile(url: str, l1: int, prompt: int) -> list[Read]:
    """``l1`` and ``prompt`` in tokens. Raises SystemExit where a prompt was in no cache."""
    found: list[Read] = []
    with httpx.Client(base_url=url, timeout=300, trust_env=False) as engine, tempfile.TemporaryDirectory() as folder:
        for number in range(READS):
            ids, traces = new_prompt(VOCABULARY, prompt), Path(folder) / str(number)
            ask(engine, ids, ANSWER)
            for _ in range(l1 // prompt + 1):
                ask(engine, new_prompt(VOCABULARY, prompt), ANSWER)
            begin = {"output_dir": str(traces), "activities": ["GPU"]}
            engine.post("/start_profile", json=begin).raise_for_status()
            cached = ask(engine, ids, ANSWER)
            time.sleep(0.2)  # the comparison may end after the answer's last token
            engine.post("/stop_profile").raise_for_status()
            if not cached:
                raise SystemExit("these figures mean nothing: the prompt was asked for again, and was not cached")
            found += reads(kernels(trace(traces)))
    return found


def trace(folder: Path) -> list[dict[str, Any]]:
    """The events of the trace that the engine writes there."""
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        for path in folder.glob("**/*.json.gz"):
            try:
                events: list[dict[str, Any]] = json.loads(gzip.decompress(path.read_bytes()))["traceEvents"]
            except (EOFError, gzip.BadGzipFile, json.JSONDecodeError):  # not written to its end yet
                continue
            return events
        time.sleep(0.2)
    raise SystemExit(f"the engine wrote no trace to {folder} within a minute: does it run on this machine?")


def draw_read(read: Read, path: Path, description: str) -> None:
    """One read on a time axis, a lane for the copies, one for the engine and one for us."""
    first, last = read.copies[0].begin, read.comparison.end
    low, high = first - AROUND * (last - first), last + AROUND * (last - first)
    settings = {"svg.fonttype": "none", "svg.hashsalt": "profile", "font.size": 8, "font.family": "sans-serif"}
    with mpl.rc_context(settings):
        figure = Figure(figsize=(9, 1.9), layout="constrained")
        axes = figure.subplots()
        for at, (lane, lane_kernels) in enumerate(
            zip(LANES, (read.copies, read.others, [read.comparison]), strict=True)
        ):
            bars = [
                ((kernel.begin - first) / 1e3, (kernel.end - kernel.begin) / 1e3)
                for kernel in lane_kernels
                if kernel.end > low and kernel.begin < high
            ]
            axes.broken_barh(bars, (-at - 0.35, 0.7), facecolors=LANES[lane])
        axes.set_yticks([-at for at in range(len(LANES))], list(LANES))
        axes.set_xlim((low - first) / 1e3, (high - first) / 1e3)
        axes.set_xlabel("milliseconds since the copy began")
        axes.spines[["top", "right"]].set_visible(False)
        figure.patch.set_facecolor("white")
        figure.savefig(path, format="svg", metadata={"Date": None, "Description": description})


def report(bench: form.Bench, found: Sequence[Read]) -> None:
    took = [(read.comparison.end - read.comparison.begin) / 1e3 for read in found]
    copied = [(read.copies[-1].end - read.copies[0].begin) / 1e3 for read in found]
    bench.add("reads of L2", len(found), "reads")
    bench.add("the copy, from its first kernel to its last", statistics.median(copied), "ms")
    bench.add("the comparison", statistics.median(took), "ms")
    gap = min(read.gap_us for read in found)
    bench.add("from the end of the copy to the comparison, at least", gap, "µs", form.at_least(0))
    beside = 100 * min(read.beside for read in found)
    note = "an engine that waited for the comparison would have none"
    bench.add("of the comparison's time the engine's kernels ran, at least", beside, "%", form.at_least(1), note=note)


def main() -> int:
    options = form.options(__doc__)
    options.add_argument("--engine", required=True, metavar="URL")
    options.add_argument("--l1", type=int, default=65_536, help="tokens that fit into that engine's L1")
    options.add_argument("--prompt", type=int, default=8192, help="tokens of a prompt")
    options.add_argument("--picture", type=Path, metavar="FILE", help="draw one read as SVG")
    options.add_argument("--gpu", help="what that engine runs on")
    given = options.parse_args()
    bench = form.Bench("content_profile", given.history, given.gpu)
    found = profile(given.engine, given.l1, given.prompt)
    if not found:
        raise SystemExit("these figures mean nothing: no comparison in the trace; is HICACHE_WITNESS_CONTENT=full set?")
    report(bench, found)
    if given.picture:
        draw_read(found[-1], given.picture, "a read of L2 and its comparison, from the engine's own profile")
    return bench.end()


if __name__ == "__main__":
    sys.exit(main())
