"""What stands in for a GPU in a benchmark's probe process is there, and says how many GPUs there are."""

import os
import subprocess
import sys
from pathlib import Path

STAND_INS = Path(__file__).parents[2] / "benchmarks" / "stand_ins"
PROBE = """
import pynvml
pynvml.nvmlInit()
print(pynvml.nvmlDeviceGetCount())
"""


def test_nvml() -> None:
    variables = {**os.environ, "PYTHONPATH": str(STAND_INS), "STAND_IN_GPUS": "3"}
    done = subprocess.run([sys.executable, "-c", PROBE], env=variables, capture_output=True, text=True, check=False)
    assert (done.stdout.strip(), done.stderr) == ("3", "")
