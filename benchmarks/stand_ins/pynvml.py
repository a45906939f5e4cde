"""NVML without a GPU for a real probe process: put this folder on its PYTHONPATH, first.

``STAND_IN_GPUS`` is how many GPUs there are. The constants and errors are those of the real module, which is imported
from where it is installed; the answers are those of the tests' stand-in.
"""

import importlib
import os
import sys
from pathlib import Path

HERE = str(Path(__file__).parent)
TESTS = str(Path(__file__).parents[2] / "tests" / "exporter" / "gpu")

sys.path.remove(HERE)
del sys.modules["pynvml"]
importlib.import_module("pynvml")
sys.path.insert(0, TESTS)
fake_nvml = importlib.import_module("fake_nvml")
sys.path.remove(TESTS)
gpus = [{"uuid": f"GPU-{number}", "rx_rate": 10_000} for number in range(int(os.environ["STAND_IN_GPUS"]))]
took = {1: 0.00035, 2: 0.00051}  # seconds of the driver's call for so many fields, on an H200
sys.modules["pynvml"] = fake_nvml.FakeNvml({"gpus": gpus}, call_seconds=took)  # type: ignore[assignment]
