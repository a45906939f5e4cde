"""What a seam costs the scheduler's thread: one wrapped call with one record, against an OpenTelemetry span inline.

    python benchmarks/seam_cost.py

First a million requests pass through all seams on their way, each with an id of its own: resident memory, descriptors
and threads before and after. Then one wrapped call with one record, again and again, and the seams on the way of a
request of 4,032 tokens that reads L2, one after the other, each as often as the engine calls it (0.5.23, 8 answer
tokens), on objects like the engine's, an array in place of a tensor. Each call is timed by itself; what an empty engine
function takes, the clock included, is subtracted. Rounds of all alternate, so that a busy machine slows them alike: one
whose caches others use, too, takes two to four times as long for everything, and only the ratios to a span stay. On the
build machine, which is shared, fifteen runs within three hours gave 91 to 160 us a request; the history has them all. A
Python built without profile-guided optimisation, as pyenv does by default and as three of those were, takes longer than
a distribution's: for a request 9, 16 and 21 % in pairs of runs that followed each other. Last the same seams after
something else has swept 3 MiB, and 64 MiB, through the processor's caches before every single call: an engine's own
work on this core does the one, a forward pass on the processor itself (no GPU) the other. What they take in a running
engine, ``engine_calls.py`` has. Then, by itself, the longest pass of all: the slots of an operation of 32,000 tokens,
whole, in pieces and scattered.
"""

from __future__ import annotations

import gc
import sys
import tempfile
from collections.abc import Callable, Sequence
from enum import Enum
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
from hicache_tracing.runs import host_runs
from hicache_tracing.seams import ALL
from hicache_tracing.session import Session

ROUNDS, CALLS = 40, 2_000
IN_TURN, SWEEPS = 5_000, 150
EMPTY = "an engine function that does nothing"
REQUESTS = 1_000_000
TOKENS, PAGE = 4032, 64
LONG = 32_000
SHAPES = ((LONG, 1), (16, 1), (1, 1), (LONG, 32), (32, 32), (16, 32))
"""Of the host slots of a long operation: how many lie in a row, and how many the engine gives out together."""
IDLE = ", with nothing to tell"
OFTEN = {
    "_evict_device_leaf": 2,
    "checkpoint": 2,
    f"start_writing{IDLE}": 17,
    f"loading_check{IDLE}": 9,
    f"writing_check{IDLE}": 9,
    f"process_batch_result{IDLE}": 7,
}
"""Calls of a request, where there is more than one."""
POLLS = ("start_loading", "start_writing", "loading_check", "writing_check", "process_batch_result")
QUIET = [EMPTY, "checkpoint", *(f"{name}{IDLE}" for name in POLLS)]
ADMIT = Kind.ADMIT  # bound once: in Python 3.11 looking up an enum's member takes 0.1 us
RID = "chatcmpl-5f1d4c1e9a0b4f7c8d2e"
NUMBERS = (4096, 0, 4000, 0, 4000, 96, 96, 0)
MOST_SPANS = 6.4
"""Inline spans that 100 us are where one takes 15.6: on the build machine, when nobody else uses its caches."""

Calls = dict[str, Callable[[], object]]
Times = dict[str, list[int]]
"""Nanoseconds of each call, by name."""
Added = dict[str, dict[str, float]]
"""Microseconds that each call takes longer than an empty one, by name and percentile."""


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


def variants(session: Session) -> Calls:
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


def measure(calls: Calls, *in_turn: Calls) -> list[Added]:
    """Of each of the first again and again, of the others in turn: rounds of all alternate."""
    again, turns = times_of(calls), [times_of(others) for others in in_turn]
    for turn in range(ROUNDS):
        for name in list(calls)[:: 1 if turn % 2 else -1]:
            for _ in range(CALLS):
                again[name].append(timed(calls[name]))
        for others, times in zip(in_turn, turns, strict=True):
            one_after_the_other(others, IN_TURN // ROUNDS, times)
    return [added(again), *map(added, turns)]


def swept(on_the_way: Calls, mib: int) -> Added:
    """In turn, when each finds its code and data gone from ``mib`` of cache."""
    other, times = np.ones(mib << 17), times_of(on_the_way)
    one_after_the_other(on_the_way, SWEEPS, times, other.sum)
    return added(times)


def one_after_the_other(calls: Calls, turns: int, times: Times, between: Callable[[], object] | None = None) -> None:
    for _ in range(turns):
        for name, call in calls.items():
            if between is not None:
                between()
            times[name].append(timed(call))


def timed(call: Callable[[], object]) -> int:
    began = perf_counter_ns()
    call()
    return perf_counter_ns() - began


def times_of(calls: Calls) -> Times:
    return {name: [] for name in calls}


def added(times: Times) -> Added:
    empty = sorted(times.pop(EMPTY))
    return {name: percentiles(kept, empty[len(empty) // 2]) for name, kept in times.items()}


def percentiles(times: list[int], empty: int) -> dict[str, float]:
    times.sort()
    return {f"p{share}_us": (times[int(len(times) * share / 100)] - empty) / 1000 for share in (50, 99)}


def together(seams: Added, share: int) -> float:
    """Microseconds of a request: each seam as often as it is called."""
    return sum(took[f"p{share}_us"] * OFTEN.get(name, 1) for name, took in seams.items())


def passes() -> list[Calls]:
    """The slots of a long operation become runs: of each shape by itself, its array in the processor's caches."""
    numbers = np.arange(LONG)

    def one(length: int, page: int) -> Callable[[], object]:
        slots = Slots(numbers + numbers // length)
        return lambda: host_runs(slots, page)

    return [
        {EMPTY: engine_function, f"{length:,} in a row, pages of {page}": one(length, page)} for length, page in SHAPES
    ]


# -- the seams of one request ------------------------------------------------------------------------------------


class Component(Enum):
    FULL = 0


class Slots:
    """An index tensor."""

    is_cpu = True

    def __init__(self, slots: np.ndarray) -> None:
        self._slots = slots

    def numel(self) -> int:
        return len(self._slots)

    def numpy(self) -> object:
        return self._slots

    def __getitem__(self, part: slice) -> object:
        return self._slots[part]


class Cache:
    """The engine's functions around its copies: what is queued becomes a transfer, which has ended when it is asked."""

    def __init__(self) -> None:
        self.load_queue: list[object] = []
        self.write_queue: list[object] = []
        self.ack_load_queue: list[object] = []
        self.ack_write_queue: list[object] = []
        self.write_policy = "write_through"
        self.slots = Slots(np.arange(TOKENS))
        self.ack = SimpleNamespace(num_bytes=TOKENS << 16)

    def load(self, *_: object) -> Slots:
        self.load_queue.append(None)
        return self.slots

    def write(self, *_: object) -> Slots:
        self.write_queue.append(None)
        return self.slots

    def start_loading(self) -> None:
        if self.load_queue:
            self.load_queue.clear()
            self.ack_load_queue.append(self.ack)

    def start_writing(self) -> None:
        if self.write_queue:
            self.write_queue.clear()
            self.ack_write_queue.append(self.ack)


class Tree:
    def __init__(self, cache: Cache) -> None:
        self.cache_controller = cache
        self.load_back_threshold = 10
        self.tree_core = SimpleNamespace(is_backuped=lambda _node: True)

    def loading_check(self, finish_count: int | None = None) -> None:
        self.cache_controller.ack_load_queue.clear()

    def writing_check(self, write_back: bool = False, finish_count: int | None = None) -> None:
        self.cache_controller.ack_write_queue.clear()

    def evict_leaf(self, _node: int, tracker: dict[Component, int]) -> None:
        tracker[Component.FULL] = TOKENS


def request_seams(session: Session) -> tuple[SimpleNamespace, Calls]:
    """A request, and the seams on its way in their order, on objects like the engine's."""
    prompt = range(TOKENS + PAGE)
    req = SimpleNamespace(
        rid=RID, origin_input_ids=prompt, output_ids=[1], prefix_len=TOKENS, host_hit_length=0, storage_hit_length=0,
        best_match_node=7, extend_len=PAGE, cached_tokens=TOKENS, cached_tokens_device=0, cached_tokens_host=TOKENS,
        cached_tokens_storage=0, retracted_stain=False, retraction_count=0, finished=lambda: True, finished_reason=None,
        time_stats=SimpleNamespace(wait_queue_entry_time=1.0, forward_entry_time=2.0),
    )  # fmt: skip
    cache = Cache()
    tree = Tree(cache)
    session.controller, session.tree, session.page = cache, tree, PAGE
    batch = SimpleNamespace(reqs=[req], forward_mode=SimpleNamespace(is_extend=lambda: True))
    promise = SimpleNamespace(best_match_node=7, host_hit_length=TOKENS, mem_quota=None, req=req)

    def looked_up() -> None:
        session.promised.clear()
        add_one_req(None, req)

    def computed(_self: object, batch: object, result: object) -> None:
        req.output_ids.append(1)

    def answered() -> None:
        req.output_ids.clear()
        process_batch_result(None, batch, None)

    def seam(name: str, function: Callable[..., object]) -> Callable[..., object]:
        return seam_of(session, name, function)

    add_one_req = seam("PrefillAdder.add_one_req", engine_function)
    init_load_back = seam("UnifiedRadixCache.init_load_back", lambda *_: (TOKENS, 7))
    load = seam("HybridCacheController.load", Cache.load)
    start_loading = seam("HiCacheController.start_loading", Cache.start_loading)
    prepare_for_extend = seam("ScheduleBatch.prepare_for_extend", engine_function)
    evict_leaf = seam("UnifiedRadixCache._evict_device_leaf", Tree.evict_leaf)
    evict_host = seam("UnifiedRadixCache.evict_host", lambda *_: TOKENS)
    loading_check = seam("UnifiedRadixCache.loading_check", Tree.loading_check)
    process_batch_result = seam("Scheduler.process_batch_result", computed)
    checkpoint = seam("UnifiedRadixCache.checkpoint", engine_function)
    write = seam("HybridCacheController.write", Cache.write)
    start_writing = seam("HiCacheController.start_writing", Cache.start_writing)
    writing_check = seam("UnifiedRadixCache.writing_check", Tree.writing_check)
    release_kv_cache = seam("release_kv_cache", engine_function)
    return req, {
        EMPTY: engine_function,
        "add_one_req": looked_up,
        "init_load_back": lambda: init_load_back(tree, promise),
        "load": lambda: load(cache, cache.slots, None, 7),
        "start_loading": lambda: start_loading(cache),
        "prepare_for_extend": lambda: prepare_for_extend(batch),
        "loading_check": lambda: loading_check(tree, finish_count=1),
        "process_batch_result": answered,
        "checkpoint": lambda: checkpoint(tree, req, up_to=TOKENS),
        "write": lambda: write(cache, cache.slots, None, 7),
        "start_writing": lambda: start_writing(cache),
        "writing_check": lambda: writing_check(tree, finish_count=1),
        "release_kv_cache": lambda: release_kv_cache(req, tree, checkpoint=True),
        "_evict_device_leaf": lambda: evict_leaf(tree, 7, {}),
        "evict_host": lambda: evict_host(tree, TOKENS, None),
        f"start_loading{IDLE}": lambda: start_loading(cache),
        f"start_writing{IDLE}": lambda: start_writing(cache),
        f"loading_check{IDLE}": lambda: loading_check(tree, finish_count=0),
        f"writing_check{IDLE}": lambda: writing_check(tree, finish_count=0),
        f"process_batch_result{IDLE}": lambda: process_batch_result(None, batch, None),
    }


def seam_of(session: Session, name: str, function: Callable[..., object]) -> Callable[..., object]:
    target = next(target for target in ALL if target.seam == name)
    seam = Seam(name, session.seam_changed)
    session.seams.append(seam)
    return around(function, seam, *target.hooks(session))


def silent(session: Session, calls: Calls) -> list[str]:
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
        _, on_the_way = request_seams(session)
        calls, seams, *shapes = measure(variants(session), on_the_way, *passes())
        after_sweeps = {mib: together(swept(on_the_way, mib), 50) for mib in (3, 64)}
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
    calls_note = f"{sum(OFTEN.get(name, 1) for name in seams)} calls"
    whole = "all seams of a request with an L2 read, as often as they are called"
    bench.add(f"{whole}, medians", together(seams, 50), "µs a request", form.at_most(100), note=calls_note)
    bench.add(f"{whole}, 99th percentiles", together(seams, 99), "µs a request", note=calls_note)
    bench.add("the same, over one such span", together(seams, 50) / span["p50_us"], "spans", form.at_most(MOST_SPANS))
    for mib, took in after_sweeps.items():
        bench.add(f"the same, {mib} MiB swept through the caches before each", took, "µs a request")
    took, shape = max((row["p50_us"], name) for one in shapes for name, row in one.items())
    bench.add(f"runs of the slots of {LONG:,} tokens, dearest shape, median", took, "µs", form.at_most(100), note=shape)
    through = f"after {given.requests:,} requests through all of its seams"
    bench.add("growth of resident memory", after.rss_mib - before.rss_mib, "MiB", form.at_most(1), note=through)
    bench.add("growth of open descriptors", after.descriptors - before.descriptors, "", form.at_most(0), note=through)
    bench.add("growth of threads", after.threads - before.threads, "", form.at_most(0), note=through)
    return bench.end()


def show(rows: Added) -> None:
    print(f"{'microseconds added to a call':40} {'p50':>8} {'p99':>8}")
    for name, row in rows.items():
        print(f"{name:40} {row['p50_us']:8.2f} {row['p99_us']:8.2f}")


if __name__ == "__main__":
    sys.exit(main())
