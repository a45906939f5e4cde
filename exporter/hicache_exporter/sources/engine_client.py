"""One engine: its /metrics at every scrape, its /server_info now and then."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable

import aiohttp

from hicache_exporter.core import engine_text
from hicache_exporter.core.engine_families import WANTED
from hicache_exporter.core.engine_info import EngineInfo, ServerInfoError, read_server_info
from hicache_exporter.core.engine_reading import EngineReading
from hicache_exporter.core.engine_report import EngineReport, EngineTracker
from hicache_exporter.core.engine_text import EngineText
from hicache_exporter.sources.bearer import Bearer
from hicache_exporter.sources.engine_http import Body, UnreadableError, get
from hicache_exporter.sources.targets import Target

log = logging.getLogger(__name__)

PATIENCE = 0.5
"""Seconds that a scrape waits for an engine that was too slow the last time. Its read goes on beside the scrapes."""
INFO_EVERY = 300.0
INFO_RETRY = 30.0
INFO_TIMEOUT = 20.0
"""The engine asks its schedulers: while they run a long prefill, that takes long."""
INFO_WAIT = 0.5
"""How long a scrape waits for the first /server_info. Later ones are read beside the scrapes."""
INFO_PATHS = ("/server_info", "/get_server_info")
GONE = ("refused", "unreachable", "broken")
"""After these another engine may answer on the same address."""


RecordedTree = Callable[[str], str | None]
"""Class of an engine's tree, as its flight recorder says; None: it has none."""


class EngineClient:
    def __init__(
        self, session: aiohttp.ClientSession, target: Target, bearer: Bearer, recorded_tree: RecordedTree
    ) -> None:
        self.target = target
        self._recorded_tree = recorded_tree
        self.tracker = EngineTracker()
        self.report: EngineReport | None = None
        self._session = session
        self._bearer = bearer
        self._reading: asyncio.Task[EngineReport] | None = None
        self._given_up = False
        self._was_slow = False
        self._info: EngineInfo | None = None
        self._info_task: asyncio.Task[None] | None = None
        self._info_due = 0.0
        self._info_trouble = ""

    async def read(self, seconds: float) -> EngineReport:
        """Answers within ``seconds``. Scrapes that overlap share one read, and a stalled engine delays only one."""
        if self._reading is None or self._reading.done():
            self._given_up = False
            self._reading = asyncio.create_task(self._read(seconds))
        reading = self._reading
        started = time.monotonic()
        await asyncio.wait({reading}, timeout=min(seconds, PATIENCE) if self._was_slow else seconds)
        if reading.done() and not reading.cancelled():
            return self._result(reading)
        self._given_up = self._was_slow = True
        return self._take(EngineReading(self.target.engine, time.monotonic() - started, "timeout"))

    def _result(self, reading: asyncio.Task[EngineReport]) -> EngineReport:
        try:
            return reading.result()
        except Exception:
            log.exception("engine %s: its answer was not understood; please report this", self.target.engine)
            return self._take(EngineReading(self.target.engine, 0.0, "internal"))

    def forget_info(self) -> None:
        """The engine has restarted: what it said of itself may no longer hold."""
        self._info = None
        self._info_due = 0.0

    async def close(self) -> None:
        for task in (self._reading, self._info_task):
            if task is not None and not task.done():
                task.cancel()
                await asyncio.wait({task})

    async def _read(self, seconds: float) -> EngineReport:
        """A text takes megabytes: it is read and taken in one go, so that only one is there at a time."""
        started = time.monotonic()
        try:
            body = await get(self._session, self.target.metrics_url, self._bearer, seconds)
            took = time.monotonic() - started
            self._start_info(time.monotonic())
            await self._first_info(seconds - took)
            engine = self.target.engine
            reading = EngineReading(engine, took, None, _parse(body), self._info, self._recorded_tree(engine))
        except UnreadableError as error:
            return self._failed(EngineReading(self.target.engine, time.monotonic() - started, error.reason))
        self._was_slow = False
        return self._take(reading)

    def _failed(self, reading: EngineReading) -> EngineReport:
        self._was_slow = reading.reason == "timeout"
        if reading.reason in GONE:
            self.forget_info()
        if self._given_up and self.report is not None:
            return self.report  # this failure has been counted as a timeout
        return self._take(reading)

    def _take(self, reading: EngineReading) -> EngineReport:
        restarts = self.tracker.counters.restarts
        self._tell(reading)
        self.report = self.tracker.take(reading)
        if self.report.restarts != restarts:
            self.forget_info()
        return self.report

    def _tell(self, reading: EngineReading) -> None:
        """In the log when it changes, and not at every scrape."""
        was_up = self.report is None or self.report.reading.up
        if was_up and not reading.up:
            where = self._bearer.place if reading.reason == "no_token" else self.target.metrics_url
            log.warning(
                "engine %s can't be read: %s (%s); asked again at every scrape", reading.engine, reading.reason, where
            )
        elif reading.up and not was_up:
            log.info("engine %s is read again", reading.engine)

    async def _first_info(self, seconds_left: float) -> None:
        if self._info is None and self._info_task is not None:
            await asyncio.wait({self._info_task}, timeout=max(0.0, min(INFO_WAIT, seconds_left / 2)))

    def _start_info(self, now: float) -> None:
        if now >= self._info_due and (self._info_task is None or self._info_task.done()):
            self._info_due = now + INFO_RETRY
            self._info_task = asyncio.create_task(self._read_info())

    async def _read_info(self) -> None:
        trouble = ""
        for path in INFO_PATHS:
            try:
                body = await get(self._session, self.target.origin + path, self._bearer, INFO_TIMEOUT)
                self._info = read_server_info(body.content)
            except (UnreadableError, ServerInfoError) as error:
                trouble = str(error)
                if trouble != "not_found":
                    break
            else:
                trouble = ""
                self._info_due = time.monotonic() + INFO_EVERY
                break
        if trouble and trouble != self._info_trouble:
            log.info("engine %s: no %s: %s", self.target.engine, INFO_PATHS[0], trouble)
        self._info_trouble = trouble


def _parse(body: Body) -> EngineText:
    if not body.content.strip():
        raise UnreadableError("empty")
    try:
        text = engine_text.read(body.content, WANTED, openmetrics=body.openmetrics)
    except engine_text.TruncatedError:
        raise UnreadableError("truncated") from None
    except engine_text.EncodingError:
        raise UnreadableError("decode") from None
    if not text.engine_families:
        raise UnreadableError("not_metrics")
    return text
