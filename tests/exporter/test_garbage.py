"""The ring reader makes a thousand rows a read: Python must not look through them for cycles at each."""

from __future__ import annotations

import subprocess
import sys

COUNT = """
import gc
from hicache_exporter.garbage import settle
from hicache_exporter.sources.ring import READ_SLOTS
if {settled}:
    settle()
gc.collect()
before = gc.get_stats()[0]["collections"]
rows = [(number, object()) for number in range({reads} * READ_SLOTS)]
print(gc.get_stats()[0]["collections"] - before)
"""


READS = 8


def looks(*, settled: bool) -> int:
    code = COUNT.format(settled=settled, reads=READS)
    return int(subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, text=True).stdout)


def test_reads_of_the_ring_bring_no_look_for_garbage() -> None:
    assert looks(settled=False) >= READS
    assert looks(settled=True) == 0
