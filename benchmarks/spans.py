"""Spans to a collector: how many a second, and what happens while it is dead.

    python benchmarks/spans.py [--dead-seconds 10] [--rate 6000] [--seconds 8] [--protocol grpc http/protobuf]

A real OTLP receiver (gRPC or HTTP, it decodes every batch) runs in another process. This one emits the spans of
requests that read L2, with the sidecar's own emitter, bounded queue and turns of threads and the SDK's exporter, at a
fixed rate; those counted are the ones that the receiver decoded. Then the receiver is killed for a while under the same
rate, and started again.
"""

from __future__ import annotations

import logging
import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import form
import processes
from engine_mix import IDENTITY
from otlp_receiver import Received, receiver

from hicache_exporter.core.identity import parse_identity
from hicache_exporter.core.spans import RequestSpans, SpanId, SpanPlan
from hicache_exporter.emit.otlp import SpanEmitter, span_queue
from hicache_exporter.emit.otlp_settings import otlp_settings
from hicache_exporter.turns import short_turns
from hicache_proof.demo.ports import free_port

TURN = 0.02
SPANS_A_REQUEST = 4
RECOVERY_SECONDS = 90
LOOKS = 8


def plans(number: int) -> RequestSpans:
    """The spans of one request that read L2: the request, its lookup, its hit, and the transfer that it shared."""
    trace, now = number + 1, time.time_ns()
    names = ("kv_cache.request", "kv_cache.lookup", "kv_cache.hit host", "kv_cache.transfer host_to_device")
    attributes = {f"sglang.hicache.attribute_{index}": 4096 + index for index in range(10)}
    made = [
        SpanPlan(
            id=SpanId(trace if index < 3 else trace << 32, 4 * number + index + 1),
            parent=SpanId(trace, 4 * number + 1) if 0 < index < 3 else None,
            name=name,
            start_ns=now - 10_000_000,
            end_ns=now,
            attributes={**attributes, "sglang.request.id": f"request-{number:016d}"},
            links=(),
        )
        for index, name in enumerate(names)
    ]
    return RequestSpans(own=tuple(made[:3]), shared=tuple(made[3:]))


class Source:
    """Emits at a rate, on this thread."""

    def __init__(self, emitter: SpanEmitter, rate: int) -> None:
        self.emitted = 0
        identity = parse_identity(IDENTITY)
        assert identity is not None
        self._emitter, self._rate, self._identity = emitter, rate, identity

    def run(self, seconds: float, until: Callable[[], bool] = lambda: False) -> float:
        """Seconds that it took. Late turns are made up for, so that the rate holds."""
        began, before = time.monotonic(), self.emitted
        while (passed := time.monotonic() - began) < seconds:
            while self.emitted - before < passed * self._rate:
                self._emitter.request(self._identity, plans(self.emitted), parent_sampled=False)
                self.emitted += SPANS_A_REQUEST
            if until():
                break
            time.sleep(TURN)
        return time.monotonic() - began


@contextmanager
def emitter(protocol: str, port: int) -> Iterator[SpanEmitter]:
    kept = {name: os.environ.pop(name) for name in list(os.environ) if name.startswith("OTEL_")}
    os.environ["OTEL_EXPORTER_OTLP_PROTOCOL"] = protocol
    os.environ["OTEL_EXPORTER_OTLP_ENDPOINT"] = f"http://127.0.0.1:{port}"
    settings = otlp_settings(os.environ)
    assert settings is not None
    found = SpanEmitter(span_queue(settings, os.environ))
    try:
        yield found
    finally:
        found.queue.shutdown(1.0)
        os.environ.update(kept)


def alive(protocol: str, seconds: float, rate: int, bench: form.Bench) -> None:
    received, port = Received(), free_port()
    with receiver(protocol, port, received), emitter(protocol, port) as emit:
        source = Source(emit, rate)
        source.run(2)  # connections, and the first batch
        spans, size, cpu = received.spans, received.bytes, time.process_time()
        took = source.run(seconds)
        cpu = time.process_time() - cpu
        arrived, arrived_bytes = received.spans - spans, received.bytes - size
        dropped, failed = emit.queue.dropped, emit.queue.failed
    note = f"{rate:,} a second were made; dropped {dropped:,}, failed {failed:,}, of {source.emitted:,}"
    bench.add(f"{protocol}: spans decoded by the receiver", arrived / took, "spans/s", form.at_least(5000), note=note)
    bench.add(f"{protocol}: size of a span on the wire", arrived_bytes / max(arrived, 1), "bytes")
    bench.add(f"{protocol}: processor time, all in one process", 1e6 * cpu / max(arrived, 1), "µs a span")


def dead(protocol: str, seconds: float, rate: int, bench: form.Bench) -> None:
    received, port = Received(), free_port()
    with emitter(protocol, port) as emit:
        source, queue = Source(emit, rate), emit.queue
        with receiver(protocol, port, received):
            source.run(3)
        source.run(min(3.0, seconds / 2))  # the queue fills, retries begin
        held = [processes.rss_mib()]
        for _ in range(LOOKS):
            source.run(seconds / LOOKS)
            held.append(processes.rss_mib())
        print(f"  {protocol}, resident while the collector is dead, MiB: {', '.join(f'{one:.1f}' for one in held)}")
        died = received.spans
        with receiver(protocol, port, received):
            recovery = source.run(RECOVERY_SECONDS, until=lambda: received.spans > died)
            back = received.spans > died
        queue.shutdown(1.0)
        accounted = queue.exported + queue.dropped + queue.failed
        dropped = queue.dropped + queue.failed
    what = f"{protocol}, collector dead for {seconds:g} s"
    note = f"{rate:,} spans a second; {dropped:,} dropped or failed, of {source.emitted:,}"
    growth, late = held[-1] - held[0], held[-1] - held[LOOKS // 2]
    bench.add(f"{what}: growth of resident memory", growth, "MiB", form.at_most(4), note=note)
    bench.add(f"{what}: of this, in the second half", late, "MiB", form.at_most(1))
    bench.add(f"{what}: spans neither exported nor counted as lost", source.emitted - accounted, "", form.at_most(0))
    figure = f"{what}: from its return to the first span there"
    bench.add(figure, recovery if back else None, "s", form.at_most(RECOVERY_SECONDS), note="" if back else "never")


def main() -> int:
    logging.disable(logging.CRITICAL)  # the exporter says at length that nobody listens
    options = form.options(__doc__)
    options.add_argument("--rate", type=int, default=6000, help="spans a second")
    options.add_argument("--seconds", type=float, default=8)
    options.add_argument("--dead-seconds", type=float, default=10)
    options.add_argument("--protocol", nargs="+", default=["grpc", "http/protobuf"])
    given = options.parse_args()
    bench = form.Bench("spans", given.history)
    short_turns()
    for protocol in given.protocol:
        alive(protocol, given.seconds, given.rate, bench)
        dead(protocol, given.dead_seconds, given.rate, bench)
    return bench.end()


if __name__ == "__main__":
    sys.exit(main())
