"""A session from recorded rings: what a sidecar beside that engine would have served of them, frame by frame.

Nothing is made up: the rings grow to the sidecar's own follower at the times of their records, and its own collectors
write the frames. What only the living engine, its GPUs and its machine could tell is missing.
"""

from __future__ import annotations

import gzip
import struct
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from prometheus_client.metrics_core import Metric
from prometheus_client.openmetrics import exposition

from hicache_dashboards.session.model import Frame
from hicache_exporter.collectors.hits import HitsCollector
from hicache_exporter.collectors.load_backs import LoadBacksCollector
from hicache_exporter.collectors.proofs import ProofsCollector
from hicache_exporter.collectors.recorder import RecorderCollector
from hicache_exporter.collectors.transfers import TransfersCollector
from hicache_exporter.core.decoding import SEQ, SPAN, T_NS
from hicache_exporter.follower import Follower
from hicache_exporter.judging import Judging
from hicache_exporter.registry import Registry
from hicache_exporter.sources.ring_folder import RingFolder
from hicache_proof.verdict import judge
from hicache_tracing.records import HEAD_OFFSET, HEADER

LOOK_NS = 100_000_000
"""Between two looks at the rings, as the sidecar looks."""
SECOND_NS = 1_000_000_000
SETTLE_NS = 6 * SECOND_NS
"""After the last record: what is judged late is in the session too."""
ALL_SLOTS = 1 << 20


class Tape:
    """A recorded ring, in a folder of ours, whose head follows the clock."""

    def __init__(self, recorded: Path, folder: Path) -> None:
        data = gzip.decompress(recorded.read_bytes())
        *_, pid, _, created_ns = HEADER.unpack_from(data)
        self.path = folder / f"{pid}-{created_ns}.ring"
        self.path.write_bytes(data)
        self.path.chmod(0o600)
        self._heads = list(_heads(self.path))
        self.first_ns, self.last_ns = self._heads[0][0], self._heads[-1][0]
        self._next = 0

    def play(self, until_ns: int) -> None:
        """Forwards only."""
        while self._next < len(self._heads) and self._heads[self._next][0] <= until_ns:
            self._next += 1
        head = self._heads[self._next - 1][1] if self._next else 0
        with self.path.open("r+b") as file:
            file.seek(HEAD_OFFSET)
            file.write(struct.pack("<Q", head))


def _heads(path: Path) -> Iterator[tuple[int, int]]:
    """When each record was written, and where the head stood then. Raises ValueError for a ring that went round."""
    folder = RingFolder(str(path.parent))
    folder.scan()
    ring = folder.rings[path.name]
    rows = ring.read(ALL_SLOTS).rows
    skipped = ring.skipped
    for name in list(folder.rings):
        folder.drop(name)
    if skipped or not rows:
        raise ValueError(
            f"the first {skipped} records of {path.name} were overwritten: no session begins in the middle"
        )
    at_ns = 0
    for row in rows:
        at_ns = max(at_ns, row[T_NS])  # a record may be stamped before the one in front of it
        yield at_ns, row[SEQ] + row[SPAN] - 1


def frames(rings: Sequence[Path], every: float, begin: float = 0, name: str | None = None) -> Iterator[Frame]:
    """Frames ``every`` so many seconds, from ``begin`` seconds after the first record to a little after the last.

    ``rings``: gzipped ring files of one engine. ``name``: what it is called; its recorded address else.
    """
    with tempfile.TemporaryDirectory() as place:
        tapes = [Tape(ring, Path(place)) for ring in rings]
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
