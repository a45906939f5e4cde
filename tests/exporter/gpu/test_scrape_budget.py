"""The whole sidecar's scrape while the GPU driver hangs: in time, and the other collectors untouched."""

import time

from hicache_exporter.app import App
from hicache_exporter.config import Settings

BUDGET = 0.25


def values(metrics):
    return {(sample.name, *sample.labels.values()): sample.value for metric in metrics for sample in metric.samples}


async def test_a_hung_driver_delays_no_scrape_and_fails_no_collector(bench):
    app = App(Settings(ring_folder=str(bench.rings)))
    app.probe = bench.probe
    await app.start()
    try:
        bench.wait_devices(a="present", b="present")
        bench.world["init"] = "hang"
        for gpu in bench.world["gpus"]:
            gpu["fail"] = {"*": "hang"}
        bench.apply()
        slowest, found, until = 0.0, {}, time.monotonic() + 20
        while found.get(("hicache_gpu_present", "GPU-a")) != 0 and time.monotonic() < until:
            began = time.monotonic()
            found = values(await app.scrape((), 1.0))
            slowest = max(slowest, time.monotonic() - began)
            time.sleep(0.05)
    finally:
        began = time.monotonic()
        await app.stop()
    assert found["hicache_gpu_present", "GPU-a"] == 0
    assert found["hicache_gpu_expected", "GPU-a"] == 1
    assert found["hicache_host_memory_bytes", "total"] > 0
    assert all(value == 1 for name, value in found.items() if name[0] == "hicache_collector_success")
    assert slowest < BUDGET
    assert time.monotonic() - began < 2
