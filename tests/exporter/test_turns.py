"""A thread that waits for the system now and then gets its turn soon, beside one that computes."""

from __future__ import annotations

import subprocess
import sys

SERVED = """
import asyncio, sys
from hicache_exporter.serve import serve
asyncio.run = lambda sidecar: (sidecar.close(), print(sys.getswitchinterval()))
serve(["--ring-dir", sys.argv[1]])
"""
PYTHONS_OWN = 0.005


def test_the_sidecar_takes_turns_of_a_fraction_of_pythons_own(tmp_path) -> None:
    done = subprocess.run([sys.executable, "-c", SERVED, str(tmp_path)], capture_output=True, check=True)
    assert 0 < float(done.stdout) < PYTHONS_OWN / 5
