"""A thread that waits for the system now and then, beside one that computes."""

from __future__ import annotations

import subprocess
import sys

CALLS = """
import threading, time
from hicache_exporter.turns import short_turns
{before}
busy = True
def compute():
    while busy:
        sum(range(1000))
threading.Thread(target=compute, daemon=True).start()
began = time.perf_counter()
for _ in range(60):
    time.sleep(0.0001)
print(time.perf_counter() - began)
busy = False
"""


def seconds(before: str) -> float:
    done = subprocess.run([sys.executable, "-c", CALLS.format(before=before)], capture_output=True, check=True)
    return float(done.stdout)


def test_it_waits_a_fraction_of_what_it_would() -> None:
    assert seconds("short_turns()") < seconds("") / 2
