import json
import sys
import time
from pathlib import Path

import pytest

from hicache_exporter.sources.gpu_probe import GpuProbe, Limits

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))  # fake_nvml is shared with the probe process, which runs as a script from here

QUICK = Limits(answer=1, start=2, stale=2, pause=0.1, pause_most=0.2, hold=1, hold_most=2, look=0.05)


class Bench:
    """A GPU probe on a world that the test changes while it runs."""

    def __init__(self, folder, limits=QUICK):
        self._file = folder / "world.json"
        self.rings = folder / "rings"
        self.rings.mkdir()
        self.world = {"gpus": [{"uuid": "GPU-a"}, {"uuid": "GPU-b"}]}
        self.apply()
        self.probe = GpuProbe(self.rings, (sys.executable, str(HERE / "fake_probe.py"), str(self._file)), limits)

    def apply(self):
        fresh = self._file.with_suffix(".new")
        fresh.write_text(json.dumps(self.world))
        fresh.rename(self._file)

    def gpu(self, uuid):
        return next(gpu for gpu in self.world["gpus"] if gpu["uuid"] == uuid)

    def wait(self, condition, seconds=15):
        """The first reading for which ``condition`` holds."""
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            reading = self.probe.read()
            if condition(reading):
                return reading
            time.sleep(0.02)
        raise AssertionError(f"not within {seconds} s; last reading: {self.probe.read()}")

    def wait_state(self, state):
        return self.wait(lambda reading: reading.state == state)

    def wait_devices(self, **states):
        wanted = {f"GPU-{name}": state for name, state in states.items()}
        return self.wait(lambda reading: {facts.uuid: facts.state for facts in reading.devices} == wanted)


@pytest.fixture
def bench(tmp_path):
    made = Bench(tmp_path)
    yield made
    made.probe.stop()


@pytest.fixture
def nvml():
    from fake_nvml import FakeNvml

    return FakeNvml
