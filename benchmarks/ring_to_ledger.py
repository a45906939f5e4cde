"""Records a second from a ring file to the ledger, on one core: a mix as an engine under load writes it.

    python benchmarks/ring_to_ledger.py

A ring of 131,072 slots is written by the real recorder, then read and taken in piece by piece as the sidecar does it,
with the sidecar's own settings of Python's garbage collector. Processor time of this process, best of five.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from pathlib import Path

import form

from hicache_exporter.core.identity import parse_identity
from hicache_exporter.core.rank_ledger import RankLedger, RingClock
from hicache_exporter.core.totals import Totals
from hicache_exporter.garbage import settle
from hicache_exporter.sources.ring import Ring
from hicache_tracing import records
from hicache_tracing.recorder import Recorder
from hicache_tracing.records import ABSENT, Direction, EvictCause, Kind, Tier

CAPACITY = 1 << 17
IDENTITY = {"port": 30000, "controller": "HybridCacheController", "page_size": 64, "bytes_per_token": 512}


def fill(recorder: Recorder) -> int:
    """Requests that hit L2, each with its backup, eviction and load; every tenth fact an eviction of other nodes."""
    written = slot = request = 0
    while recorder.head < CAPACITY - 64:
        rid = recorder.key(f"request-{request:08d}-of-a-usual-length")
        node, backup, load, moved = request + 10, 2 * request, 2 * request + 1, 2 * request
        runs = [(slot + 128 * i, 64) for i in range(4)]
        packed = records.pack_runs(runs)
        recorder.write(Kind.LOOKUP, rid, 4096, 0, 256, 0, node)
        recorder.write(Kind.BACKUP, rid, node, 256, backup, 4, 1, 1, extra=packed)
        recorder.write(
            Kind.TRANSFER,
            b"",
            moved,
            Direction.DEVICE_TO_HOST,
            1,
            256,
            131072,
            1,
            -1,
            extra=records.PAIR.pack(node, backup),
        )
        recorder.write(Kind.TRANSFER_DONE, b"", moved, Direction.DEVICE_TO_HOST, 256, 131072, 200_000, 1)
        recorder.write(Kind.EVICT, b"", Tier.DEVICE, EvictCause.DEMOTED, node, 256)
        recorder.write(Kind.EVICT, b"", Tier.DEVICE, EvictCause.DROPPED, node + 1, 64)
        recorder.write(Kind.LOAD, rid, node, 256, load, 4, 1, extra=packed)
        recorder.write(Kind.LOAD_BACK, rid, 256, 256, 0, node, 10, ABSENT, 0, 0)
        recorder.write(Kind.ADMIT, rid, 4096, 0, 256, 0, 256, 3840, 3840, 0)
        recorder.write(
            Kind.TRANSFER,
            b"",
            moved + 1,
            Direction.HOST_TO_DEVICE,
            1,
            256,
            131072,
            1,
            0,
            extra=records.PAIR.pack(node, load),
        )
        recorder.write(Kind.FIRST_TOKEN, rid, 4096, time.monotonic_ns() - 10_000_000, 0, 4)
        recorder.write(Kind.TRANSFER_DONE, b"", moved + 1, Direction.HOST_TO_DEVICE, 256, 131072, 200_000, 1)
        recorder.write(Kind.FINISH, rid, 4096, 128, 0, 0)
        written += 13
        request += 1
        slot = (slot + 512) % 500_000
    return written


def measure() -> dict[str, float]:
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        recorder = Recorder(folder, CAPACITY)
        recorder.identify(IDENTITY)
        written = fill(recorder)
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        ring = Ring(Path(recorder.path).name, descriptor, os.geteuid())
        identity = parse_identity(ring.identity)
        assert identity is not None
        ledger = RankLedger(identity, Totals(), RingClock(0, 0), 0)
        read = took = 0.0
        records_read, behind = 0, 1
        while behind:
            began = time.process_time()
            found = ring.read()
            halfway = time.process_time()
            ledger.tell(found.rows, found.extras, found.losses)
            ledger.news()
            ended = time.process_time()
            read, took = read + halfway - began, took + ended - began
            records_read, behind = records_read + len(found.rows), found.behind
        os.close(descriptor)
    assert records_read == written, (records_read, written)
    return {
        "records_per_second": written / took,
        "read_us_per_record": 1e6 * read / written,
        "ledger_us_per_record": 1e6 * (took - read) / written,
    }


def main() -> int:
    bench = form.Bench("ring_to_ledger", form.options(__doc__).parse_args().history)
    settle()
    best = max((measure() for _ in range(5)), key=lambda figures: figures["records_per_second"])
    bench.add("from ring to ledger", best["records_per_second"], "records/s a core", form.at_least(200_000))
    bench.add("to copy and check", best["read_us_per_record"], "µs a record")
    bench.add("in the ledger", best["ledger_us_per_record"], "µs a record")
    return bench.end()


if __name__ == "__main__":
    sys.exit(main())
