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
from engine_mix import IDENTITY, RECORDS_A_REQUEST, Mix

from hicache_exporter.core.identity import parse_identity
from hicache_exporter.core.rank_ledger import RankLedger, RingClock
from hicache_exporter.core.totals import Totals
from hicache_exporter.garbage import look, settle
from hicache_exporter.sources.ring import Ring
from hicache_tracing.recorder import Recorder

CAPACITY = 1 << 17


def fill(recorder: Recorder) -> int:
    """Records written: as many whole requests as the ring holds."""
    mix = Mix(recorder)
    written = 0
    while recorder.head < CAPACITY - 64:
        mix.request()
        written += RECORDS_A_REQUEST
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
            look()
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
