"""The demo engine, the sidecar and a real Prometheus under mixed load for hours; what they take, minute by minute.

    python -m tests.chaos.soak --minutes 115 --folder out/soak

Ends by itself. ``folder`` gets minutes.jsonl as it goes and result.json at the end. Exit code 1 if something grew, was
lost, or was said that is wrong.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import aiohttp
from prometheus_client.parser import text_string_to_metric_families

from hicache_exporter import names
from hicache_proof.demo.engine import Engine, EngineSpec
from hicache_proof.demo.ports import free_port
from hicache_proof.demo.processes import group_members
from hicache_proof.demo.sidecar import Sidecar

from ..stack.programs import Prometheus
from .machine import machine
from .mixed_load import MixedLoad
from .process_figures import ProcessFigures
from .soak_result import conclude

PAUSE = 0.5
"""Mean seconds between two requests of a user: with all its readers well under half a core, and enough of them to fill
what the sidecar remembers (4096 requests) within the first hour, so that the rest must be flat."""
SEED = 7
TOLD = {
    "records": (names.RECORDS, "rank"),
    "lost": (names.RECORDS_LOST, "reason"),
    "verdicts": (names.VERDICTS_TOTAL, "verdict"),
    "content": (names.CONTENT_TOTAL, "content"),
    "requests": (names.REQUESTS, "tier"),
    "seam_faults": (names.SEAM_FAULTS, "seam"),
    "forgotten": (names.LEDGER_FORGOTTEN, "what"),
}
"""What is kept of the sidecar's /metrics, by which label."""


class Soak:
    def __init__(self, folder: Path, programs: ExitStack) -> None:
        self.folder = folder
        self.engine = programs.enter_context(Engine(EngineSpec(content="sampled"), folder / "engine"))
        self.sidecar = programs.enter_context(Sidecar(self.engine.url, self.engine.rings, folder))
        targets = [{"targets": [self.sidecar.url.removeprefix("http://")]}]
        self.prometheus = Prometheus(folder / "prometheus", targets, f"127.0.0.1:{free_port()}", (), quick=False)
        programs.enter_context(self.prometheus.run())
        self.processes = {name: ProcessFigures(pid) for name, pid in self._pids().items()}
        self.minutes: list[dict[str, Any]] = []

    def _pids(self) -> dict[str, int]:
        (scheduler,) = self.engine.scheduler_pids
        group = int(self.sidecar.log.read_text().split()[0])  # the leash says it first
        return {"scheduler": scheduler, "sidecar": group_members(group)[0].pid}

    async def run(self, seconds: float, every: float) -> None:
        began = time.monotonic()
        async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(60)) as session:
            load = MixedLoad(self.engine.url, self.sidecar.url, session, SEED, PAUSE)
            working = asyncio.create_task(load.run())
            while (passed := time.monotonic() - began) < seconds and not working.done():
                await asyncio.sleep(min(every, seconds - passed))
                self._note(await self._minute(time.monotonic() - began, load, session))
            working.cancel()
            await asyncio.gather(working, return_exceptions=True)

    async def _minute(self, seconds: float, load: MixedLoad, session: aiohttp.ClientSession) -> dict[str, Any]:
        async with session.get(f"{self.sidecar.url}/metrics") as reply:
            page = await reply.text()
        scrapes, load.scrapes = sorted(load.scrapes), []
        return {
            "seconds": round(seconds, 1),
            "processes": {name: process.look() for name, process in self.processes.items()},
            **told(page),
            "scrape_seconds": {"median": scrapes[len(scrapes) // 2], "longest": scrapes[-1]} if scrapes else None,
            "load": dict(load.counts),
            "errors": dict(load.errors),
            "prometheus": await asyncio.to_thread(self._prometheus),
        }

    def _prometheus(self) -> dict[str, Any]:
        up = self.prometheus.query('min_over_time(up{job="hicache-witness"}[1m])')
        return {"up": float(up[0]["value"][1]) if up else None, "firing": sorted(self.prometheus.alerts())}

    def _note(self, minute: dict[str, Any]) -> None:
        self.minutes.append(minute)
        with (self.folder / "minutes.jsonl").open("a") as file:
            file.write(json.dumps(minute) + "\n")


def told(page: str) -> dict[str, dict[str, float]]:
    """The families of TOLD, by their label; a family that is not on the page is empty."""
    found: dict[str, dict[str, float]] = {name: {} for name in TOLD}
    wanted = {family.series: (name, label) for name, (family, label) in TOLD.items()}
    for family in text_string_to_metric_families(page):
        for sample in family.samples:
            if sample.name in wanted:
                name, label = wanted[sample.name]
                key = sample.labels[label]
                found[name][key] = found[name].get(key, 0) + sample.value
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=120)
    parser.add_argument("--every", type=float, default=60, help="seconds between two looks")
    parser.add_argument("--folder", type=Path, default=Path("out/soak"))
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    began = time.time()
    with ExitStack() as programs:
        soak = Soak(options.folder.resolve(), programs)
        asyncio.run(soak.run(60 * options.minutes, options.every))
    result = {
        "what": "soak: demo engine on CPU, sidecar and Prometheus under mixed load",
        "command": f"python -m tests.chaos.soak --minutes {options.minutes:g}",
        "machine": machine(),
        "date": time.strftime("%Y-%m-%d", time.gmtime(began)),
        **conclude(soak.minutes),
    }
    (options.folder / "result.json").write_text(json.dumps(result, indent=1) + "\n")
    for fault in result["faults"]:
        print(fault, file=sys.stderr)
    return 1 if result["faults"] else 0


if __name__ == "__main__":
    sys.exit(main())
