"""The real probe process on a fake NVML: ``fake_probe.py WORLD_FILE BOARD_FD RING_FOLDER``."""

import sys
from pathlib import Path

from fake_nvml import FakeNvml

from hicache_exporter.sources import nvml_probe

if __name__ == "__main__":
    world, fd, rings = sys.argv[1:]
    nvml_probe.FACTS_EVERY_NS = nvml_probe.FACTS_AT_REST_NS = nvml_probe.ALL_EVERY_NS = nvml_probe.SECOND // 10
    nvml_probe.RELIST_NS = nvml_probe.SECOND // 2
    sys.exit(nvml_probe.run(FakeNvml(Path(world)), int(fd), Path(rings)))
