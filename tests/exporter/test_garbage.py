"""The ring reader makes thousands of rows a read: Python must not look through them for cycles at each."""

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
rows = [(number, object()) for number in range(READ_SLOTS)]
print(gc.get_stats()[0]["collections"] - before)
"""


def looks_a_read(*, settled: bool) -> int:
    code = COUNT.format(settled=settled)
    return int(subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, text=True).stdout)


def test_a_read_of_the_ring_brings_no_look_for_garbage() -> None:
    assert looks_a_read(settled=False) > 1
    assert looks_a_read(settled=True) == 0
