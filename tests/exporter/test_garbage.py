"""The ring reader makes a thousand rows a read: Python looks through them for cycles where nobody waits for it."""

from __future__ import annotations

import subprocess
import sys

READS = 16
START = f"""
import gc
from hicache_exporter.garbage import LOOKS, YOUNG, look, settle
from hicache_exporter.sources.ring import READ_SLOTS

def looks():
    return [generation["collections"] for generation in gc.get_stats()]

def rows(count):
    return [(number, object()) for number in range(count)]

reads = {READS}
"""


def run(code: str) -> list[int]:
    done = subprocess.run([sys.executable, "-c", START + code], capture_output=True, check=True, text=True)
    return [int(word) for word in done.stdout.split()]


def test_reads_of_the_ring_bring_no_look_for_garbage() -> None:
    code = "gc.collect(); before = looks(); kept = rows(reads * READ_SLOTS); print(looks()[0] - before[0])"
    assert run(code) >= [READS]
    assert run("settle();" + code) == [0]


def test_it_looks_when_it_is_time_and_told_to() -> None:
    assert run("settle(); before = looks(); kept = rows(YOUNG // 2); look(); print(looks()[0] - before[0])") == [0]
    assert run("settle(); before = looks(); kept = rows(YOUNG + 1); look(); print(looks()[0] - before[0])") == [1]


def test_after_many_looks_at_the_young_the_older_are_looked_at_and_cycles_among_them_go() -> None:
    code = """
import weakref
class Knot: pass
settle()
knot = Knot()
knot.itself = knot
kept, gone = [rows(YOUNG + 1)], weakref.ref(knot)
look()  # it is older now
before = looks()
del knot
for turn in range(LOOKS + 2):
    kept.append(rows(YOUNG + 1))
    look()
print(looks()[1] - before[1], int(gone() is None))
"""
    assert run(code) == [1, 1]
