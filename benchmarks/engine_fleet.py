"""What a scrape of the whole sidecar takes: one engine with everything, and 64 engines.

    python benchmarks/engine_fleet.py [--engines 64] [--ranks 8] [--gpus 8] [--scrapes 40]

The real sidecar, a process of its own, is asked over HTTP as Prometheus asks it. The engines are recorded answers of
0.5.23 (L3 on, labelled by rank) from another process. The one engine also has a flight recorder a rank, each of which
tells of 20 requests a second while it is scraped, and GPUs that a stand-in for NVML shows; "beyond the engine's own
time" is the time of the scrape without hicache_engine_scrape_duration_seconds of that scrape. The 64 have neither: they
run on other machines. The share of a core is what a scrape takes, every 15 seconds, and what the sidecar takes at rest.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
import time

import form
import processes
from engine_mix import IDENTITY, Mix
from sidecar import Sidecar, series, values
from stand_in_engines import stand_in_engines

from hicache_tracing.recorder import Recorder

INTERVAL = 15.0
PAUSE, REQUESTS_A_PAUSE = 0.1, 2


def recorders(folder: str, port: int, ranks: int) -> list[Mix]:
    found = []
    for rank in range(ranks):
        recorder = Recorder(folder, 32_768)
        recorder.identify({**IDENTITY, "port": port, "tp_rank": rank, "tp_size": ranks})
        found.append(Mix(recorder))
    return found


def scrape_one(port: int, ranks: int, gpus: int, scrapes: int, bench: form.Bench) -> None:
    wall, beyond, cpu = [], [], []
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        mixes = recorders(folder, port, ranks)
        with Sidecar([f"127.0.0.1:{port}"], folder, gpus) as sidecar:
            warm_up(sidecar, ranks, gpus)
            for _ in range(scrapes):
                for mix in mixes:
                    for _ in range(REQUESTS_A_PAUSE):
                        mix.request()
                time.sleep(PAUSE)
                used = processes.cpu_seconds(sidecar.pid)
                took, text = sidecar.scrape()
                cpu.append(1e3 * (processes.cpu_seconds(sidecar.pid) - used))
                wall.append(1e3 * took)
                beyond.append(1e3 * (took - values(text, "hicache_engine_scrape_duration_seconds")[0]))
    what = f"one engine, {ranks} ranks, {gpus} GPUs"
    spread = form.percentiles(beyond, 50, 90)
    figure = f"{what}: beyond the engine's own time, 99th percentile"
    bench.add(figure, form.percentiles(beyond, 99)["p99"], "ms", form.at_most(15), percentiles=spread)
    bench.add(f"{what}: a scrape, median", statistics.median(wall), "ms", note=f"{series(text)} series")
    bench.add(f"{what}: processor time of a scrape, median", statistics.median(cpu), "ms")


def warm_up(sidecar: Sidecar, ranks: int, gpus: int) -> None:
    """Until everything is there that the scrape is about: else the figures would mean nothing."""
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        _, text = sidecar.scrape()
        seen = len(values(text, "hicache_recorder_up")), sum(values(text, "hicache_gpu_present"))
        if seen == (ranks, gpus) and values(text, "hicache_engine_server_info_up") == [1]:
            return
        time.sleep(0.5)
    raise SystemExit(f"these figures mean nothing: of {ranks} ranks and {gpus} GPUs the sidecar shows {seen}")


def scrape_many(ports: list[int], scrapes: int, bench: form.Bench) -> None:
    wall, cpu = [], []
    engines = [f"127.0.0.1:{port}" for port in ports]
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder, Sidecar(engines, folder) as sidecar:
        sidecar.scrape()  # the first one also reads every /server_info
        used, began = processes.cpu_seconds(sidecar.pid), time.monotonic()
        time.sleep(5)
        rest = (processes.cpu_seconds(sidecar.pid) - used) / (time.monotonic() - began)
        for _ in range(scrapes):
            used = processes.cpu_seconds(sidecar.pid)
            took, text = sidecar.scrape()
            wall.append(took)
            cpu.append(processes.cpu_seconds(sidecar.pid) - used)
        memory = processes.rss_mib(sidecar.pid)
    if values(text, "hicache_engine_up") != [1] * len(ports):
        raise SystemExit("these figures mean nothing: not every engine was read")
    what = f"{len(ports)} engines"
    spread = form.percentiles(wall, 50, 90)
    longest = form.percentiles(wall, 99)["p99"]
    bench.add(f"{what}: a scrape, 99th percentile", longest, "s", form.at_most(1), percentiles=spread)
    bench.add(f"{what}: resident memory", memory * processes.MIB / 1e6, "MB", form.at_most(80))
    share = 100 * (statistics.median(cpu) / INTERVAL + rest)
    note = f"{100 * rest:.2f} % of it at rest; {series(text)} series"
    bench.add(f"{what}: processor time, a scrape every 15 s", share, "% of a core", form.at_most(5), note=note)


def main() -> int:
    options = form.options(__doc__)
    options.add_argument("--engines", type=int, default=64)
    options.add_argument("--ranks", type=int, default=8)
    options.add_argument("--gpus", type=int, default=8)
    options.add_argument("--scrapes", type=int, default=40, help="of all engines; of the one five times as many")
    given = options.parse_args()
    bench = form.Bench("engine_fleet", given.history)
    with stand_in_engines(given.engines, given.ranks) as ports:
        scrape_one(ports[0], given.ranks, given.gpus, 5 * given.scrapes, bench)
        scrape_many(ports, given.scrapes, bench)
    return bench.end()


if __name__ == "__main__":
    sys.exit(main())
