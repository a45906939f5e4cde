"""A session from recorded rings: what a sidecar beside that engine would have served of them, frame by frame.

Nothing is made up: the rings grow to the sidecar's own follower at the times of their records, and its own collectors
write the frames. What only the living engine, its GPUs and its machine could tell is missing.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from prometheus_client.metrics_core import Metric
from prometheus_client.openmetrics import exposition

from hicache_dashboards.session.model import Frame, Recording
from hicache_dashboards.session.tape import Tape, address_of, facts_of, recorded, renamed
from hicache_exporter.collectors.hits import HitsCollector
from hicache_exporter.collectors.load_backs import LoadBacksCollector
from hicache_exporter.collectors.proofs import ProofsCollector
from hicache_exporter.collectors.recorder import RecorderCollector
from hicache_exporter.collectors.transfers import TransfersCollector
from hicache_exporter.follower import Follower
from hicache_exporter.judging import Judging
from hicache_exporter.registry import Registry
from hicache_exporter.sources.ring_folder import RingFolder
from hicache_proof.verdict import judge

LOOK_NS = 100_000_000
"""Between two looks at the rings, as the sidecar looks."""
SECOND_NS = 1_000_000_000
SETTLE_NS = 6 * SECOND_NS
"""After the last record: what is judged late is in the session too."""


def session_of(rings: Sequence[Path], every: float, begin: float, name: str | None) -> Recording:
    """As ``frames``, with the rings."""
    with tempfile.TemporaryDirectory() as place:
        first_ns = min(_whole(ring, Path(place)).first_ns for ring in rings)
    kept = [recorded(ring) for ring in rings]
    if name is not None:
        kept = [renamed(ring, [(address_of(facts_of(ring)) or "", name)]) for ring in kept]
    return Recording(list(frames(rings, every, begin, name)), tuple(kept), first_ns + round(begin * SECOND_NS))


def frames(rings: Sequence[Path], every: float, begin: float = 0, name: str | None = None) -> Iterator[Frame]:
    """Frames ``every`` so many seconds, from ``begin`` seconds after the first record to a little after the last.

    ``rings``: gzipped ring files of one engine. ``name``: what it is called; its recorded address else.
    """
    with tempfile.TemporaryDirectory() as place:
        tapes = [_whole(ring, Path(place)) for ring in rings]
        first_ns = min(tape.first_ns for tape in tapes)
        begin_ns, end_ns = first_ns + round(begin * SECOND_NS), max(tape.last_ns for tape in tapes) + SETTLE_NS
        # Whoever wrote them lived to the end: a recorder that is idle is not gone.
        follower = Follower(RingFolder(place), lambda who: name or who.address, 0, lives=lambda pid, born_ns: True)
        judging = Judging(judge, 0)
        registry = _registry(follower, judging)
        frame_ns = begin_ns
        for now_ns in range(first_ns, end_ns, LOOK_NS):
            for tape in tapes:
                tape.play(now_ns)
            _look(follower, judging, now_ns)
            if now_ns >= frame_ns:
                yield Frame(round((now_ns - begin_ns) / SECOND_NS, 3), _text(registry.collect()))
                frame_ns += round(every * SECOND_NS)


def _whole(ring: Path, folder: Path) -> Tape:
    tape = Tape(recorded(ring), folder)
    if tape.skipped:
        raise ValueError(f"the first {tape.skipped} records of {ring.name} were overwritten: no session begins there")
    return tape


def _look(follower: Follower, judging: Judging, now_ns: int) -> None:
    for _ in follower.steps(now_ns):
        pass
    for engine in follower.engines.values():
        for case in engine.due(now_ns):
            judging.hear(case)


def _registry(follower: Follower, judging: Judging) -> Registry:
    registry = Registry(clock=lambda: 0.0)  # how long a collector takes here says nothing about there
    registry.register("hits", HitsCollector(follower))
    registry.register("transfers", TransfersCollector(follower))
    registry.register("load_backs", LoadBacksCollector(follower))
    registry.register("proofs", ProofsCollector(follower, judging))
    registry.register("recorder", RecorderCollector(follower))
    return registry


class _Families:
    def __init__(self, families: list[Metric]) -> None:
        self._families = families

    def collect(self) -> list[Metric]:
        return self._families


def _text(families: list[Metric]) -> str:
    text: bytes = exposition.generate_latest(_Families(families))  # type: ignore[no-untyped-call]
    return text.decode()
