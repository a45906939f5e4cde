"""The real sidecar on a ring that is written to without pause: what it loses, what it says, what it takes.

    python benchmarks/ring_flood.py [--seconds 600] [--rate 20000]

First at the rate that it must keep up with: nothing may be lost and every read of L2 be proven. Then at ten times that:
every slot of the ring must be on the page, as read or as lost, and no verdict may be wrong. The engine is ring_writer;
where slots are lost nobody knows how many records were in them, so every record takes two then.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import NamedTuple

import form
import httpx
import processes
from prometheus_client.parser import text_string_to_metric_families
from ring_writer import Account, read_account

from hicache_exporter import names
from hicache_proof.demo.ports import free_port

LOOK_SECONDS = 2.0
WRITER = Path(__file__).parent / "ring_writer.py"


class Flood(NamedTuple):
    wanted: float
    account: Account
    seconds: float
    records: int
    lost: int
    verdicts: Counter[str]
    rss: list[float]
    """MiB of the sidecar, every LOOK_SECONDS."""
    cpu: float
    """Cores."""
    writer_cpu: float
    scrape_seconds: list[float]

    @property
    def rate(self) -> float:
        return self.account.records / self.seconds

    @property
    def growth(self) -> float:
        """MiB between the third quarter and the last: before that the ledger fills its bounds."""
        quarter = max(len(self.rss) // 4, 1)
        return median(self.rss[-quarter:]) - median(self.rss[-2 * quarter : -quarter] or self.rss)


@contextmanager
def sidecar(rings: Path) -> Iterator[tuple[subprocess.Popen[bytes], str]]:
    listen = f"127.0.0.1:{free_port()}"
    command = [sys.executable, "-m", "hicache_exporter", "serve", "--ring-dir", str(rings), "--listen", listen]
    process = subprocess.Popen([*command, "--log-level", "warning", "--no-collector.gpu", "--no-collector.pcie"])
    try:
        yield process, f"http://{listen}"
    finally:
        process.terminate()
        process.wait(timeout=30)


def flood(rate: float, seconds: float, *, even: bool) -> Flood:
    with tempfile.TemporaryDirectory(dir="/dev/shm") as scratch:
        rings, account = Path(scratch) / "rings", Path(scratch) / "account"
        rings.mkdir(mode=0o700)
        with sidecar(rings) as (process, url):
            wait_for(url)
            options = ["--hold", "--rate", str(rate), "--account", str(account), *(["--even"] if even else [])]
            command = [sys.executable, str(WRITER), str(rings), *options]
            writer = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
            assert writer.stdin is not None
            assert writer.stdout is not None
            writer.stdout.readline()
            time.sleep(LOOK_SECONDS)  # the sidecar looks for new rings every second: none is overwritten before that
            writer.stdin.write(b"\n")
            writer.stdin.flush()
            try:
                began, cpu, writer_cpu = time.monotonic(), processes.cpu_seconds(process.pid), 0.0
                rss, scrapes = [], []
                while (passed := time.monotonic() - began) < seconds:
                    time.sleep(min(LOOK_SECONDS, seconds - passed))
                    rss.append(processes.rss_mib(process.pid))
                    scrapes.append(scrape(url)[0])
                writer_cpu = processes.cpu_seconds(writer.pid)
                cpu = processes.cpu_seconds(process.pid) - cpu
            finally:
                wall = time.monotonic() - began
                writer.terminate()
                writer.stdout.readline()
            try:
                told = settled(url)
                written = read_account(account)
            finally:
                writer.communicate()
    records = int(sum(told[names.RECORDS.series].values()))
    lost = int(sum(told[names.RECORDS_LOST.series].values()))
    verdicts = Counter({name: int(count) for name, count in told[names.VERDICTS_TOTAL.series].items() if count})
    return Flood(rate, written, wall, records, lost, verdicts, rss, cpu / wall, writer_cpu / wall, scrapes)


def wait_for(url: str) -> None:
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        try:
            httpx.get(f"{url}/-/ready", trust_env=False).raise_for_status()
        except httpx.HTTPError:
            time.sleep(0.1)
        else:
            return
    raise TimeoutError("the sidecar is not ready")


def settled(url: str) -> dict[str, Counter[str]]:
    """The page once it says the same for longer than a verdict may wait."""
    told, same = scrape(url)[1], 0
    while same < 13:
        time.sleep(1)
        before, told = told, scrape(url)[1]
        same = same + 1 if told == before else 0
    return told


def scrape(url: str) -> tuple[float, dict[str, Counter[str]]]:
    """(seconds, {series: {last label: value}}) of the families that matter here."""
    began = time.perf_counter()
    page = httpx.get(f"{url}/metrics", timeout=30, trust_env=False).text
    taken = time.perf_counter() - began
    label = {names.RECORDS.series: "rank", names.RECORDS_LOST.series: "reason", names.VERDICTS_TOTAL.series: "verdict"}
    told: dict[str, Counter[str]] = {series: Counter() for series in label}
    for family in text_string_to_metric_families(page):
        for sample in family.samples:
            if sample.name in label:
                told[sample.name][sample.labels[label[sample.name]]] += sample.value  # type: ignore[assignment]
    return taken, told


def report(bench: form.Bench, found: Flood, *, even: bool) -> None:
    title = f"{found.wanted:,.0f}/s"
    scrapes = form.percentiles(found.scrape_seconds, 50, 99)
    verdicts = ", ".join(f"{count:,} {name}" for name, count in found.verdicts.most_common())
    bench.add(f"{title}: written", found.rate, "records/s", note=f"for {found.seconds:.0f} s")
    bench.add(f"{title}: lost", found.lost, "slots", None if even else form.at_most(0))
    unknown, note = (
        (None, "which records were lost is not known") if found.lost and not even else (unaccounted(found), "")
    )
    bench.add(f"{title}: neither read nor counted as lost", unknown, "slots", form.at_most(0), note=note)
    bench.add(f"{title}: wrong verdicts", wrong(found), "requests", form.at_most(0), note=verdicts)
    bench.add(f"{title}: memory of the sidecar", max(found.rss), "MiB", note="the most")
    bench.add(f"{title}: its growth", found.growth, "MiB", form.at_most(8), note="third quarter to last quarter")
    bench.add(f"{title}: CPU of the sidecar", found.cpu, "cores")
    bench.add(f"{title}: /metrics took", scrapes["p50"], "s", percentiles=scrapes)


def unaccounted(found: Flood) -> int:
    """Records or, where slots were lost, slots. Either way wrong: less than nothing is counted twice."""
    if found.lost == 0:
        return found.account.records - found.records
    return found.account.slots - 2 * found.records - found.lost


def wrong(found: Flood) -> int:
    """Verdicts on the reads of L2, and on the others, that are neither right nor "not observed"."""
    contradicted, reads = found.verdicts["contradicted"], found.verdicts["proven"] + found.verdicts["consistent"]
    stories = found.account.stories + 1  # the last one may be half told
    return contradicted + max(reads - stories, 0) + max(found.verdicts["no_read"] - stories, 0)


def main() -> int:
    parser = form.options(__doc__)
    parser.add_argument("--seconds", type=float, default=600)
    parser.add_argument("--rate", type=float, default=20_000)
    options = parser.parse_args()
    bench = form.Bench("ring_flood", options.history)
    report(bench, flood(options.rate, options.seconds, even=False), even=False)
    report(bench, flood(10 * options.rate, options.seconds / 5, even=True), even=True)
    return bench.end()


if __name__ == "__main__":
    sys.exit(main())
