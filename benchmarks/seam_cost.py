"""What a seam costs the scheduler's thread: one wrapped call with one record, against an OpenTelemetry span inline.

    python benchmarks/seam_cost.py

Rounds of all variants alternate, so that a busy machine slows them alike. Each call is timed by itself; what an empty
engine function takes, the clock included, is subtracted. Then the seams that know a request with an L2 read, once each,
on objects like the engine's. Those of its copies (load, write, start_loading, start_writing, evictions) take an
engine's tensors and are not among them: ``engine_calls.py`` has all of them, on the real engine. Then the same seams
after something else has swept 3 MiB, and 64 MiB, through the processor's caches before every single call: an engine's
own work on this core does the one, a forward pass on the processor itself (no GPU) the other. Last, a million
requests pass through the same wrapped functions, each with an id of its own: resident memory, descriptors and threads
before and after.
"""

from __future__ import annotations

import gc
import statistics
import sys
import tempfile
from collections.abc import Callable, Sequence
from time import perf_counter_ns
from types import SimpleNamespace
from typing import NamedTuple

import form
import numpy as np
import processes
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult

from hicache_tracing.config import Settings
from hicache_tracing.guard import Before, Seam, around
from hicache_tracing.records import Kind
from hicache_tracing.seams import ALL
from hicache_tracing.session import Session

ROUNDS, CALLS = 40, 2_000
SWEEPS = 150
EMPTY = "an engine function that does nothing"
REQUESTS = 1_000_000
QUIET = [EMPTY, "checkpoint", "loading_check, nothing open", "writing_check, nothing open"]
ADMIT = Kind.ADMIT  # bound once: in Python 3.11 looking up an enum's member takes 0.1 us
RID = "chatcmpl-5f1d4c1e9a0b4f7c8d2e"
NUMBERS = (4096, 0, 4000, 0, 4000, 96, 96, 0)


class Discard(SpanExporter):
    """A collector that takes no time at all: only what the calling thread pays is left."""

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        return SpanExportResult.SUCCESS


def engine_function(*_args: object, **_kwargs: object) -> None:
    return None


def wrapped(session: Session, before: Before) -> Callable[..., None]:
    seam = session.new_seam("benchmark")
    seam.fire()
    return around(engine_function, seam, before)


def variants(session: Session) -> dict[str, Callable[[], object]]:
    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(BatchSpanProcessor(Discard()))
    tracer = provider.get_tracer("benchmark")
    names = ("prompt", "device", "host", "storage", "cached", "computed", "chunk", "retracted")

    def record(_args: object, _kwargs: object) -> None:
        session.write(ADMIT, session.key(RID), *NUMBERS)

    def span() -> None:
        with tracer.start_as_current_span("kv_cache.lookup") as current:
            current.set_attribute("sglang.request.id", RID)
            for name, number in zip(names, NUMBERS, strict=True):
                current.set_attribute(name, number)
            engine_function()

    off = wrapped(session, record)
    session.seams[-1].on = False
    write, key = session.write, session.key
    return {
        EMPTY: engine_function,
        "wrapper, seam off": off,
        "wrapper alone": wrapped(session, lambda _args, _kwargs: None),
        "record alone": lambda: write(ADMIT, key(RID), *NUMBERS),
        "wrapper and record": wrapped(session, record),
        "OpenTelemetry span inline": span,
    }


def measure(calls: dict[str, Callable[[], object]], rounds: int = ROUNDS) -> dict[str, dict[str, float]]:
    times: dict[str, list[int]] = {name: [] for name in calls}
    for turn in range(rounds):
        for name in list(calls)[:: 1 if turn % 2 else -1]:
            call, kept = calls[name], times[name]
            for _ in range(CALLS):
                began = perf_counter_ns()
                call()
                kept.append(perf_counter_ns() - began)
    empty = sorted(times.pop(EMPTY))
    return {name: percentiles(kept, empty[len(empty) // 2]) for name, kept in times.items()}


def percentiles(times: list[int], empty: int) -> dict[str, float]:
    times.sort()
    return {f"p{share}_us": (times[int(len(times) * share / 100)] - empty) / 1000 for share in (50, 99)}


def swept(calls: dict[str, Callable[[], object]], mib: int) -> float:
    """Microseconds of all calls together, medians, when each finds its code and data gone from ``mib`` of cache."""
    other = np.ones(mib << 17)
    times: dict[str, list[int]] = {name: [] for name in calls}
    for _ in range(SWEEPS):
        for name, call in calls.items():
            other.sum()
            began = perf_counter_ns()
            call()
            times[name].append(perf_counter_ns() - began)
    empty = statistics.median(times.pop(EMPTY))
    return sum(statistics.median(kept) - empty for kept in times.values()) / 1000


# -- the seams of one request ------------------------------------------------------------------------------------


Calls = dict[str, Callable[[], object]]


def request_seams(session: Session) -> tuple[SimpleNamespace, Calls]:
    """A request, and the seams on its way, as often as they are called for it, each on objects like the engine's."""
    prompt = range(4096)
    req = SimpleNamespace(
        rid=RID, origin_input_ids=prompt, output_ids=[1], prefix_len=4000, host_hit_length=0, storage_hit_length=0,
        best_match_node=7, extend_len=96, cached_tokens=4000, cached_tokens_device=0, cached_tokens_host=4000,
        cached_tokens_storage=0, retracted_stain=False, retraction_count=0, finished=lambda: True, finished_reason=None,
        time_stats=SimpleNamespace(wait_queue_entry_time=1.0, forward_entry_time=2.0),
    )  # fmt: skip
    controller = SimpleNamespace(load_queue=[], write_queue=[], ack_load_queue=[], ack_write_queue=[])
    session.controller = controller
    tree = SimpleNamespace(cache_controller=controller, load_back_threshold=10)
    batch = SimpleNamespace(reqs=[req], forward_mode=SimpleNamespace(is_extend=lambda: True))
    promise = SimpleNamespace(best_match_node=7, host_hit_length=4000, mem_quota=None, req=req)

    def looked_up() -> None:
        session.promised.clear()
        seams["PrefillAdder.add_one_req"](None, req)

    def answered() -> None:
        req.output_ids.clear()
        seams["Scheduler.process_batch_result"](None, batch, None)

    seams = {
        name: seam_of(session, name, function)
        for name, function in (
            ("PrefillAdder.add_one_req", engine_function),
            ("ScheduleBatch.prepare_for_extend", engine_function),
            ("UnifiedRadixCache.init_load_back", lambda *_: (4000, 7)),
            ("UnifiedRadixCache.checkpoint", engine_function),
            ("Scheduler.process_batch_result", lambda *_: req.output_ids.append(1)),
            ("release_kv_cache", engine_function),
            ("UnifiedRadixCache.loading_check", engine_function),
            ("UnifiedRadixCache.writing_check", engine_function),
        )
    }
    return req, {
        EMPTY: engine_function,
        "add_one_req (lookup)": looked_up,
        "init_load_back": lambda: seams["UnifiedRadixCache.init_load_back"](tree, promise),
        "prepare_for_extend (admission)": lambda: seams["ScheduleBatch.prepare_for_extend"](batch),
        "checkpoint": lambda: seams["UnifiedRadixCache.checkpoint"](tree, req, up_to=4096),
        "process_batch_result (first token)": answered,
        "release_kv_cache (end)": lambda: seams["release_kv_cache"](req, tree, checkpoint=True),
        "loading_check, nothing open": lambda: seams["UnifiedRadixCache.loading_check"](tree),
        "writing_check, nothing open": lambda: seams["UnifiedRadixCache.writing_check"](tree),
    }


def seam_of(session: Session, name: str, function: Callable[..., object]) -> Callable[..., object]:
    target = next(target for target in ALL if target.seam == name)
    seam = Seam(name, session.seam_changed)
    session.seams.append(seam)
    return around(function, seam, *target.hooks(session))


def silent(session: Session, calls: dict[str, Callable[[], object]]) -> list[str]:
    """The seams that record nothing when called once: those with nothing to say, or a benchmark that misses them."""
    quiet = []
    for name, call in calls.items():
        head = session.recorder.head
        call()
        quiet += [name] if session.recorder.head == head else []
    return quiet


# -- a million requests ------------------------------------------------------------------------------------------


class Held(NamedTuple):
    rss_mib: float
    descriptors: int
    threads: int


def held() -> Held:
    gc.collect()
    return Held(processes.rss_mib(), processes.descriptors(), processes.threads())


def serve(session: Session, requests: int) -> tuple[Held, Held]:
    """What this process holds before and after ``requests`` requests through all seams of one."""
    req, calls = request_seams(session)

    def pass_through(first: int, count: int) -> None:
        for number in range(first, first + count):
            req.rid = f"request-{number:016d}"
            for call in calls.values():
                call()

    pass_through(0, 20_000)
    before = held()
    pass_through(20_000, requests)
    return before, held()


def main() -> int:
    options = form.options(__doc__)
    options.add_argument("--requests", type=int, default=REQUESTS, help="how many pass through at the end")
    given = options.parse_args()
    bench = form.Bench("seam_cost", given.history)
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        session = Session(Settings(folder=folder))
        session.open()
        before, after = serve(session, given.requests)  # first, while the heap holds nothing that goes again
        calls = measure(variants(session))
        _, on_the_way = request_seams(session)
        seams = measure(on_the_way, ROUNDS // 4)
        after_sweeps = {mib: swept(on_the_way, mib) for mib in (3, 64)}
        quiet = silent(session, request_seams(session)[1])
        faults = {seam.name: seam.faults for seam in session.seams if seam.faults}
    if faults or quiet != QUIET:
        print(f"these figures mean nothing: faults {faults}, no record from {quiet}", file=sys.stderr)
        return 1
    show(calls | {f"  {name}": one for name, one in seams.items()})
    ours, span = calls["wrapper and record"], calls["OpenTelemetry span inline"]
    bench.add("wrapper and record, median", ours["p50_us"], "µs a call", form.at_most(2))
    bench.add("wrapper and record, 99th percentile", ours["p99_us"], "µs a call", form.at_most(10))
    bench.add("the same as an OpenTelemetry span inline, median", span["p50_us"], "µs a call")
    bench.add("times cheaper than that span", span["p50_us"] / ours["p50_us"], "times", form.at_least(15))
    bench.add("seam switched off, median", calls["wrapper, seam off"]["p50_us"], "µs a call")
    together = sum(one["p50_us"] for one in seams.values())
    bench.add("all seams of a request with an L2 read, on stand-ins", together, "µs a request", form.at_most(100))
    for mib, took in after_sweeps.items():
        bench.add(f"the same, {mib} MiB swept through the caches before each", took, "µs a request")
    whole = f"after {given.requests:,} requests through all of its seams"
    bench.add("growth of resident memory", after.rss_mib - before.rss_mib, "MiB", form.at_most(1), note=whole)
    bench.add("growth of open descriptors", after.descriptors - before.descriptors, "", form.at_most(0), note=whole)
    bench.add("growth of threads", after.threads - before.threads, "", form.at_most(0), note=whole)
    return bench.end()


def show(rows: dict[str, dict[str, float]]) -> None:
    print(f"{'microseconds added to a call':40} {'p50':>8} {'p99':>8}")
    for name, row in rows.items():
        print(f"{name:40} {row['p50_us']:8.2f} {row['p99_us']:8.2f}")


if __name__ == "__main__":
    sys.exit(main())
