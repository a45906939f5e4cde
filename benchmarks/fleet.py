"""What a fleet costs: what grows with ranks and with requests, and a real Prometheus under many simulated sidecars.

    python benchmarks/fleet.py [--targets 100] [--seconds 100]

Series are counted on scrapes of the real sidecar in front of engines of 1 and of 8 ranks with as many GPUs (stand-ins);
processor time and spans, on the real sidecar while a real recorder writes requests that read L2. Then Debian's
Prometheus scrapes so many targets every 5 seconds, all served by one process: the scrape of 8 ranks, its values moving.
Recording rules and alerts are the shipped ones; what they cost is the difference to the same time without them. Memory
is what the process holds at the end; a head of two hours has more samples a series than this run, in chunks on disk.
"""

from __future__ import annotations

import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import form
import httpx
import processes
import yaml
from engine_fleet import recorders, warm_up
from engine_mix import IDENTITY, Mix
from otlp_receiver import Received, receiver
from sidecar import Sidecar, series, values
from simulated_fleet import simulated_fleet
from stand_in_engines import stand_in_engines

from hicache_proof.demo.ports import free_port
from hicache_tracing.recorder import Recorder
from hicache_tracing.records import SLOT_SIZE

RANKS, INTERVAL = 8, 5
EVALUATION_SECONDS = 30
RATE, LOAD_SECONDS = 200, 10


def page_of(ranks: int) -> str:
    """A scrape of the sidecar of an engine with so many ranks, each on its own GPU, all of which told of requests."""
    with stand_in_engines(1, ranks) as (port,), tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        mixes = recorders(folder, port, ranks)
        with Sidecar([f"127.0.0.1:{port}"], folder, ranks) as sidecar:
            warm_up(sidecar, ranks, ranks)
            for mix in mixes:
                for _ in range(20):
                    mix.request()
            time.sleep(2)
            return sidecar.scrape()[1]


def requests(bench: form.Bench) -> None:
    """What one request costs: on the ring, in the sidecar, on the wire to the collector."""
    received, port = Received(), free_port()
    to_collector = {"OTEL_EXPORTER_OTLP_ENDPOINT": f"http://127.0.0.1:{port}"}
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder, receiver("http/protobuf", port, received):
        recorder = Recorder(folder, 1 << 16)
        recorder.identify({**IDENTITY, "seams": []})
        mix = Mix(recorder)
        costs = []
        for variables in ({}, to_collector):
            with Sidecar([], folder, variables=variables) as sidecar:
                mix.request()
                time.sleep(2)
                spans, size, head = received.spans, received.bytes, recorder.head
                used = processes.cpu_seconds(sidecar.pid)
                began, made = time.monotonic(), 0
                while (passed := time.monotonic() - began) < LOAD_SECONDS:
                    while made < passed * RATE:
                        mix.request()
                        made += 1
                    time.sleep(0.01)
                time.sleep(2)
                costs.append((processes.cpu_seconds(sidecar.pid) - used) / made)
    bench.add("recorder: bytes of the ring a request", (recorder.head - head) * SLOT_SIZE / made, "bytes")
    bench.add("sidecar: processor time for 1,000 requests a second", 1000 * costs[0], "cores", note="spans off")
    bench.add("the same with spans, none sampled away", 1000 * costs[1], "cores", note=f"at {RATE} requests a second")
    bench.add("spans a request", (received.spans - spans) / made, "spans")
    bench.add("OTLP bytes a request, not compressed", (received.bytes - size) / made, "bytes")


def configuration(folder: Path, port: int, targets: int) -> Path:
    rules = [sys.executable, "-m", "hicache_exporter", "rules"]
    (folder / "rules.yaml").write_text(subprocess.run(rules, capture_output=True, text=True, check=True).stdout)
    places = [
        {
            "targets": [f"127.0.0.1:{port}"],
            "labels": {"__metrics_path__": f"/{number}/metrics", "instance": f"node-{number}"},
        }
        for number in range(targets)
    ]
    content = {
        "global": {"scrape_interval": f"{INTERVAL}s", "scrape_timeout": f"{INTERVAL}s"},
        "rule_files": ["rules.yaml"],
        "scrape_configs": [{"job_name": "hicache-witness", "static_configs": places}],
    }
    path = folder / "prometheus.yml"
    path.write_text(yaml.safe_dump(content))
    return path


def prometheus(page: str, targets: int, seconds: float, bench: form.Bench) -> None:
    with tempfile.TemporaryDirectory() as place, simulated_fleet(page) as fleet:
        folder, port = Path(place), free_port()
        config = configuration(folder, fleet, targets)
        command = ["prometheus", f"--config.file={config}", f"--storage.tsdb.path={folder / 'data'}"]
        command += [f"--web.listen-address=127.0.0.1:{port}", "--log.level=error"]
        process = subprocess.Popen(command)
        try:
            time.sleep(20)  # the series are made
            used = processes.cpu_seconds(process.pid)
            time.sleep(seconds)
            used = (processes.cpu_seconds(process.pid) - used) / seconds
            config.write_text(yaml.safe_dump(yaml.safe_load(config.read_text()) | {"rule_files": []}))
            process.send_signal(signal.SIGHUP)
            time.sleep(2)
            bare = processes.cpu_seconds(process.pid)
            time.sleep(seconds)
            bare = (processes.cpu_seconds(process.pid) - bare) / seconds
            about = httpx.get(f"http://127.0.0.1:{port}/metrics", trust_env=False, timeout=30).text
            resident = processes.rss_mib(process.pid) * processes.MIB
        finally:
            process.kill()
            process.wait()
    head = values(about, "prometheus_tsdb_head_series")[0]
    samples = values(about, "prometheus_tsdb_head_samples_appended_total")[0]
    if head < targets * series(page):
        raise SystemExit(f"these figures mean nothing: {head:.0f} series of {targets * series(page)}")
    note = f"{targets} targets every {INTERVAL} s, {head:,.0f} series, {samples:,.0f} samples by then"
    heap = values(about, "go_memstats_heap_inuse_bytes")[0]
    bench.add("Prometheus: resident memory a series", resident / head, "bytes", note=note)
    bench.add("Prometheus: heap in use a series", heap / head, "bytes")
    what = "Prometheus: processor time for 100,000 samples a second, without rules"
    bench.add(what, bare / (head / INTERVAL) * 1e5, "cores")
    rules = 1e3 * max(used - bare, 0) * EVALUATION_SECONDS / targets
    what = "Prometheus: processor time of one evaluation of all recording rules and alerts"
    bench.add(what, rules, "ms an engine", note="their longest windows held minutes here, hours in service")


def main() -> int:
    options = form.options(__doc__)
    options.add_argument("--targets", type=int, default=100)
    options.add_argument("--seconds", type=float, default=100)
    given = options.parse_args()
    bench = form.Bench("fleet", given.history)
    small, page = page_of(1), page_of(RANKS)
    per_rank = (series(page) - series(small)) / (RANKS - 1)
    bench.add("series of an engine with 8 ranks on 8 GPUs", series(page), "series")
    bench.add("series that one more rank with its GPU brings", per_rank, "series")
    bench.add("size of that scrape", len(page.encode()) / 1e3, "kB", note="before compression")
    requests(bench)
    prometheus(page, given.targets, given.seconds, bench)
    return bench.end()


if __name__ == "__main__":
    sys.exit(main())
