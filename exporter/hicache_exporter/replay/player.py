"""A recording on a clock of its own: rings that grow as they did, followed and judged by the sidecar itself."""

from __future__ import annotations

import asyncio
import struct
import time
from collections.abc import Callable
from pathlib import Path

from hicache_dashboards.session.model import LONGEST, Frame, Recording, Session
from hicache_dashboards.session.rings import SETTLE_NS
from hicache_dashboards.session.tape import NoRecordError, Tape
from hicache_exporter.app import App
from hicache_exporter.config import Settings
from hicache_exporter.replay.source import NothingToReplayError

ELSEWHERE = frozenset({"engine", "gpu", "pcie", "host"})
"""Collectors that look at what is here now, which is not what was recorded."""
TICK_SECONDS = 0.05
SECOND_NS = 1_000_000_000


class Player:
    """Plays a recording over and over. ``app`` is the sidecar of the round that is being played.

    With rings, each round is a sidecar that begins anew; frames go on from round to round.
    """

    def __init__(
        self, recording: Recording, speed: float, folder: Path, clock: Callable[[], float] = time.monotonic
    ) -> None:
        """``folder``: an empty one for the rings, of nobody else. Raises NothingToReplayError."""
        self._folder = folder
        self._clock = clock
        self.speed = speed
        self._began = clock()
        self._session = _session(recording.frames)
        self.tapes = [tape for ring in recording.rings if (tape := self._tape(ring)) is not None]
        if self._session is None and not self.tapes:
            raise NothingToReplayError("it holds fewer than two frames, and no ring with a record")
        first_ns = min((tape.first_ns for tape in self.tapes), default=0)
        last_ns = max((tape.last_ns for tape in self.tapes), default=0)
        self._begin_ns = recording.begin_ns if recording.begin_ns is not None else first_ns
        length_ns = last_ns + SETTLE_NS - self._begin_ns  # negative: all of it is from before the metrics
        if self.tapes and abs(length_ns) > LONGEST * SECOND_NS:
            raise NothingToReplayError("its rings are of another time than it says")
        self.seconds = self._session.seconds if self._session is not None else length_ns / SECOND_NS
        """Length of one round, of recorded time."""
        self._round = 0
        self.app = self._fresh()
        self.turned: Callable[[App], None] = lambda app: None
        """Told of the sidecar of each further round."""

    @property
    def has_rings(self) -> bool:
        return bool(self.tapes)

    @property
    def played(self) -> float:
        """Seconds of recorded time since the first round began."""
        return (self._clock() - self._began) * self.speed

    @property
    def recorded_at(self) -> float | None:
        """When that happened which is played now, seconds since the epoch; None: metrics alone do not tell."""
        return self._wall(self._now_ns())

    def metrics(self) -> str | None:
        """The frame of this moment, OpenMetrics; None: there are only rings."""
        return self._session.at(self.played) if self._session is not None else None

    async def play(self) -> None:
        """For ever; ends by being cancelled."""
        await self.app.start()
        try:
            while True:
                if self.tapes and self.played // self.seconds > self._round:
                    await self._turn()
                self._grow()
                await asyncio.sleep(TICK_SECONDS)
        finally:
            await self.app.stop()

    async def _turn(self) -> None:
        await self.app.stop()
        self._round = int(self.played // self.seconds)
        self.app = self._fresh()
        await self.app.start()
        self.turned(self.app)

    def _fresh(self) -> App:
        for tape in self.tapes:
            tape.rewind()
        self._grow()
        settings = Settings(ring_folder=str(self._folder), off=ELSEWHERE)
        # Whoever wrote the rings lived to their end: a recorder that is idle is not gone.
        app = App(settings, self._now_ns, lives=lambda pid, born_ns: True)
        app.since = self._wall(self._now_ns())
        return app

    def _grow(self) -> None:
        for tape in self.tapes:
            tape.play(self._now_ns())

    def _now_ns(self) -> int:
        """On the clock of the rings."""
        into = self.played - self._round * self.seconds
        return self._begin_ns + round(into * SECOND_NS)

    def _wall(self, t_ns: int) -> float | None:
        return self.tapes[0].clock.wall(t_ns) if self.tapes else None

    def _tape(self, ring: bytes) -> Tape | None:
        """None: nothing was recorded in it."""
        try:
            return Tape(ring, self._folder)
        except NoRecordError:
            return None
        except (ValueError, struct.error) as error:
            raise NothingToReplayError(f"a ring in it can't be read: {error}") from None


def _session(frames: list[Frame]) -> Session | None:
    """None: there are too few."""
    try:
        return Session(frames) if len(frames) > 1 else None
    except ValueError as error:
        raise NothingToReplayError(f"its metrics can't be played: {error}") from None
