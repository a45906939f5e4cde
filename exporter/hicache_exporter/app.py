"""The whole sidecar: the one place where every part meets the others."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection
from contextlib import suppress
from pathlib import Path
from time import monotonic_ns, time

import aiohttp
from prometheus_client.metrics_core import Metric

from hicache_exporter.assigning import assign_to
from hicache_exporter.bus_witness import BusWitness
from hicache_exporter.collectors.build import BuildCollector
from hicache_exporter.collectors.engine import EngineCollector
from hicache_exporter.collectors.engine_targets import EngineTargetsCollector
from hicache_exporter.collectors.gpu import GpuCollector
from hicache_exporter.collectors.hits import HitsCollector
from hicache_exporter.collectors.host import HostCollector
from hicache_exporter.collectors.load_backs import LoadBacksCollector
from hicache_exporter.collectors.pcie import PcieCollector
from hicache_exporter.collectors.proofs import ProofsCollector
from hicache_exporter.collectors.recorder import RecorderCollector
from hicache_exporter.collectors.scrapes import ScrapesCollector
from hicache_exporter.collectors.spans import SpansCollector
from hicache_exporter.collectors.transfers import TransfersCollector
from hicache_exporter.config import Settings
from hicache_exporter.core.engine_ledger import Case
from hicache_exporter.core.engine_report import EngineReport
from hicache_exporter.core.rank_process import RankProcess
from hicache_exporter.follower import Follower, Lives
from hicache_exporter.garbage import look
from hicache_exporter.judging import Judging
from hicache_exporter.rank_processes import rank_processes
from hicache_exporter.registry import Collector, Registry
from hicache_exporter.sources.engine_http import engine_session
from hicache_exporter.sources.engines import Engines
from hicache_exporter.sources.gpu_probe import GpuProbe
from hicache_exporter.sources.host import Host
from hicache_exporter.sources.numa_watch import NumaWatch
from hicache_exporter.sources.process import is_alive
from hicache_exporter.sources.ring_folder import RingFolder
from hicache_exporter.sources.targets import Targets
from hicache_exporter.spanning import Spanning
from hicache_proof.verdict import judge

log = logging.getLogger(__name__)

BUSY_SECONDS = 0.02
IDLE_SECONDS = 0.1
BUSY_FOR_NS = 1_000_000_000
COLLECTORS = (
    "build",
    "hits",
    "transfers",
    "load_backs",
    "proofs",
    "recorder",
    "engine",
    "gpu",
    "pcie",
    "host",
    "spans",
)
"""Collectors by name, as they can be switched off. ``scrapes`` always runs."""
MAX_HELD = 1024
LOOK_NS = 2_000_000_000
LOOK_SECONDS = 1.0
PATIENCE_NS = 300_000_000

Clock = Callable[[], int]
"""Nanoseconds, as CLOCK_MONOTONIC gives them."""


class App:
    """Owns every source; ``scrape`` and the pages look at what they last knew."""

    def __init__(self, settings: Settings, clock: Clock = monotonic_ns, lives: Lives = is_alive) -> None:
        """``clock``: that of the rings' records; another one, and ``lives``, where they come from a recording."""
        now_ns = clock()
        self._clock = clock
        self.since: float | None = time()
        """When it began to count, seconds since the epoch; None: not known."""
        self.settings = settings
        self.targets = Targets(settings.engines, settings.engine_files)
        assign = assign_to(self.targets.current, named=settings.names_engines)
        self.follower = Follower(RingFolder(settings.ring_folder), assign, now_ns, lives)
        self.host = Host()
        self.probe = None if {"gpu", "pcie"} <= settings.off else GpuProbe(Path(settings.ring_folder))
        self.numa = NumaWatch(lambda: [rank.pid for rank in self._ranks()])
        self.bus = BusWitness(self.probe) if self.probe is not None else None
        self.judging = Judging(judge, now_ns, [self.bus] if self.bus is not None else [])
        self.spanning = Spanning(now_ns)
        self.engines: Engines | None = None
        self.scrapes = ScrapesCollector()
        self.registry = Registry()
        self._held: list[Case] = []
        self._engine_fault: Exception | None = None
        self._looked_ns = now_ns - LOOK_NS
        self._news = asyncio.Event()
        self._session: aiohttp.ClientSession | None = None
        self._following: asyncio.Task[None] | None = None

    # -- life --------------------------------------------------------------------------------------------------

    async def start(self) -> None:
        self._session = engine_session()
        self.engines = Engines(self._session, self.targets, self.settings.bearer, self._tree)
        self._register()
        if self.probe is not None:
            self.probe.start()
        if "host" not in self.settings.off:
            self.numa.start()
        self._following = asyncio.create_task(self._follow(), name="follow rings")

    async def stop(self) -> None:
        """End within two seconds, whatever a collector of spans or a GPU driver does."""
        if self._following is not None:
            self._following.cancel()
            with suppress(asyncio.CancelledError):
                await self._following
        self.numa.stop()
        ends = [asyncio.to_thread(self.spanning.stop, 1.0)]
        if self.probe is not None:
            ends.append(asyncio.to_thread(self.probe.stop))
        await asyncio.gather(*ends)
        if self.engines is not None:
            await self.engines.close()
        if self._session is not None:
            await self._session.close()

    def _register(self) -> None:
        follower = self.follower
        known: dict[str, Collector] = {
            "build": BuildCollector(),
            "hits": HitsCollector(follower),
            "transfers": TransfersCollector(follower),
            "load_backs": LoadBacksCollector(follower),
            "proofs": ProofsCollector(follower, self.judging),
            "recorder": RecorderCollector(follower),
            "engine": EngineCollector(self._reports),
            "host": HostCollector(self.host, self._ranks, self.numa.latest),
            "spans": SpansCollector(self.spanning),
        }
        if self.probe is not None:
            known["gpu"] = GpuCollector(self.probe, self.host, self._ranks)
            known["pcie"] = PcieCollector(self.probe)
        for name in COLLECTORS:
            if name in known and name not in self.settings.off:
                self.registry.register(name, known[name])
        if "engine" not in self.settings.off:
            self.registry.register("engine_targets", EngineTargetsCollector(self.targets))
        self.registry.register("scrapes", self.scrapes)

    # -- following the rings -----------------------------------------------------------------------------------

    async def look(self) -> None:
        """For people: the rings as they are now, the engines as they were two seconds ago at most."""
        now_ns = self._clock()
        if self.engines is not None and now_ns - self._looked_ns > LOOK_NS and "engine" not in self.settings.off:
            self._looked_ns = now_ns
            await self._refresh(self.engines, LOOK_SECONDS)
        self.catch_up()

    def _ranks(self) -> list[RankProcess]:
        """The engine processes of this machine that are being recorded."""
        return rank_processes(self.follower)

    def _tree(self, engine: str) -> str | None:
        """Class of an engine's tree, as its flight recorder says."""
        identities = (found.ledger.identity for found in self.follower.live_ranks(engine))
        return next((identity.tree for identity in identities if identity.tree), None)

    @property
    def ready(self) -> bool:
        """The ring folder was looked through at least once."""
        return self.follower.rounds > 0

    @property
    def healthy(self) -> bool:
        return self._following is not None and not self._following.done()

    async def _follow(self) -> None:
        while True:
            try:
                for _ in self.follower.steps(self._clock()):
                    await asyncio.sleep(0)
                self._judge()
                look()
            except Exception:
                log.exception("following the rings failed; trying again")
                await asyncio.sleep(1)
            await asyncio.sleep(self._pause())

    def _pause(self) -> float:
        if self.follower.behind:
            return 0
        return BUSY_SECONDS if self._clock() - self.follower.moved_ns < BUSY_FOR_NS else IDLE_SECONDS

    def catch_up(self) -> None:
        """Take in what the rings hold at this moment, a round at most."""
        for _ in self.follower.steps(self._clock()):
            pass
        self._judge()

    def _judge(self) -> None:
        now_ns = self._clock()
        engines = self.follower.engines.values()
        cases, self._held = [*self._held, *(case for engine in engines for case in engine.due(now_ns))], []
        told = False
        for case in cases:
            if self._hold(case, now_ns):
                continue
            proof = self.judging.hear(case)
            if proof is not None:
                told = True
                self.spanning.hear(proof)
        self.spanning.finished(ledger for engine in engines for ledger in engine.ranks.values())
        if told:
            self._news.set()
            self._news = asyncio.Event()

    def _hold(self, case: Case, now_ns: int) -> bool:
        """The bus counters are sampled: a final verdict waits a moment for the sample behind the transfer."""
        if self.bus is None or not case.final or len(self._held) >= MAX_HELD:
            return False
        ends = [found.claim.t1_ns for found in case.claims.values() if found.claim is not None]
        if not ends or abs(now_ns - max(ends)) > PATIENCE_NS:
            return False
        if not self.bus.is_early(case):
            return False
        self._held.append(case)
        return True

    async def news(self, seconds: float) -> None:
        """Wait until something was judged, or the time is over."""
        with suppress(TimeoutError):
            await asyncio.wait_for(self._news.wait(), seconds)

    # -- what the collectors ask for ---------------------------------------------------------------------------

    async def scrape(self, only: Collection[str], seconds: float) -> list[Metric]:
        """All families, or those of the collectors named. Ready after ``seconds`` whatever the engines do."""
        if self.engines is not None and (not only or "engine" in only) and "engine" not in self.settings.off:
            await self._refresh(self.engines, seconds)
        self.catch_up()
        return self.registry.collect(only)

    async def _refresh(self, engines: Engines, seconds: float) -> None:
        """A fault in reading engines costs their families: what was read before must not be shown as of now."""
        try:
            await engines.refresh(seconds)
        except Exception as fault:  # noqa: BLE001 - raised again by the collector, which tells of it
            self._engine_fault = fault
        else:
            self._engine_fault = None

    def _reports(self) -> list[EngineReport]:
        if self._engine_fault is not None:
            raise self._engine_fault
        return self.engines.reports if self.engines is not None else []
