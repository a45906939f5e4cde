"""A recording on a clock of its own: the sidecar judges from rings that grow as they did."""

from __future__ import annotations

import asyncio
import gzip
import lzma
import math
import tempfile
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import datetime
from pathlib import Path

import pytest
from aiohttp.test_utils import TestClient, TestServer

from hicache_dashboards.session import model, tape
from hicache_dashboards.session.model import Frame, Recording, read, samples, save
from hicache_dashboards.session.tape import Tape, recorded, renamed
from hicache_exporter.replay import player as playing
from hicache_exporter.replay.player import Player
from hicache_exporter.replay.server import ReplayServer
from hicache_exporter.replay.source import NothingToReplayError, recording
from hicache_tracing.records import HEADER

RING = Path(__file__).parents[1] / "recorded" / "h200-0.5.23-one-row-damaged.ring.gz"
"""A real ring: its lab read L2 three times, and one row came back damaged."""
SESSION = Path(__file__).parents[3] / "deploy" / "sessions" / "cpu.xz"
FRAMES = [Frame(0.0, "# TYPE up gauge\nup 1\n# EOF\n"), Frame(5.0, "# TYPE up gauge\nup 2\n# EOF\n")]


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture(autouse=True)
def hurry(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(playing, "TICK_SECONDS", 0.001)


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def play(tmp_path: Path, clock: Clock):
    @asynccontextmanager
    async def play(recording: Recording, speed: float = 1.0) -> AsyncIterator[TestClient]:
        folder = Path(tempfile.mkdtemp(dir=tmp_path))
        player = Player(recording, speed, folder, clock)
        task = asyncio.create_task(player.play())
        async with TestClient(TestServer(ReplayServer(player).application())) as client:
            client.player = player
            yield client
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    return play


async def proofs(client: TestClient, enough: Callable[[list], bool] = lambda found: True) -> list[dict]:
    """Once there are enough; the player needs a tick of its own."""
    for _ in range(300):
        async with client.get("/proofs?limit=500") as answer:
            found = (await answer.json())["proofs"]
        if enough(found):
            return found
        await asyncio.sleep(0.01)
    return found


async def test_nothing_is_known_before_its_time_and_all_is_judged_after_it(play, clock) -> None:
    async with play(Recording([], (recorded(RING),))) as client:
        assert await proofs(client) == []
        clock.now += client.player.seconds - 0.5
        found = await proofs(client, lambda found: any(proof["content"] == "damaged" for proof in found))
        verdicts = {proof["verdict"] for proof in found}
        assert {"no_read", "contradicted"} & verdicts
        assert [proof["content"] for proof in found].count("damaged") == 1
        (damaged,) = (proof["request_id"] for proof in found if proof["content"] == "damaged")
        async with client.get(f"/proofs/{damaged}") as answer:
            told = await answer.json()
        assert told["judgement"]["content"] == "damaged"
        assert told["events"]


async def test_faster_it_is_there_sooner_and_tells_the_same_times(play, clock) -> None:
    """The clock runs faster, the engine did not."""
    told = []
    for speed in (1.0, 20.0):
        async with play(Recording([], (recorded(RING),)), speed) as client:
            clock.now += (client.player.seconds - 0.5) / speed
            found = await proofs(client, lambda found: any(proof["content"] == "damaged" for proof in found))
            told.append([(proof["ttft_seconds"], proof["at"]) for proof in found if proof["content"] == "damaged"])
    assert len(told[0]) == 1
    assert told[0] == told[1]


async def test_the_next_round_begins_anew_with_another_sidecar(play, clock) -> None:
    async with play(Recording([], (recorded(RING),))) as client:
        clock.now += client.player.seconds - 0.5
        assert await proofs(client, bool)
        first = client.player.app
        clock.now += 0.6
        assert await proofs(client, lambda found: not found) == []
        assert client.player.app is not first
        clock.now += client.player.seconds - 1
        assert await proofs(client, bool)


async def test_recorded_metrics_are_served_and_without_any_the_sidecars_own(play, clock) -> None:
    async with play(Recording(FRAMES, (recorded(RING),), None)) as client:
        async with client.get("/metrics") as answer:
            assert answer.headers["Content-Type"].startswith("application/openmetrics-text")
            assert await answer.text() == FRAMES[0].text
        clock.now += 6
        async with client.get("/metrics") as answer:
            assert "up 2" in await answer.text()


async def test_rings_alone_have_metrics_of_the_recorder_and_none_of_this_machine(play, clock) -> None:
    async with play(Recording([], (recorded(RING),))) as client:
        clock.now += client.player.seconds - 0.5
        await proofs(client, bool)
        async with client.get("/metrics") as answer:
            text = await answer.text()
    assert 'hicache_hit_tokens_total{engine="127.0.0.1:30000",tier="host"}' in text
    assert "hicache_recorder_up" in text
    assert not any(name in text for name in ("hicache_host_", "hicache_gpu_", "hicache_pcie_", "hicache_engine_up"))


async def test_what_was_in_a_ring_before_the_session_began_is_known_and_not_counted(play, clock) -> None:
    ring = recorded(RING)
    for hours, counted in ((0, True), (1, False)):
        async with play(Recording(FRAMES, (ring,), begins(ring) + hours * 3_600_000_000_000)) as client:
            clock.now += 9
            assert await proofs(client, bool)
            app = client.player.app
            families = {family.name: family for family in await app.scrape([], 1)}
            assert app.follower.live_ranks("127.0.0.1:30000")
            assert any(sample.value for sample in families["hicache_requests"].samples) is counted


async def test_the_shipped_session_is_judged_today_as_its_sidecar_judged_then(play, clock) -> None:
    told = recording(SESSION)
    assert told.begin_ns is not None
    then = [dict(samples(frame.text)) for frame in (told.frames[0], told.frames[-1])]
    counted = {series: value - then[0][series] for series, value in then[1].items() if "hicache_verdicts" in series}
    async with play(told) as client:
        app = client.player.app
        assert [tape.skipped for tape in client.player.tapes] == [0]
        clock.now += told.frames[-1].at - told.frames[0].at
        await proofs(client, lambda found: len(found) == 500 and not app.follower.behind)
        await proofs(client)
        now = app.judging.counts_of("engine:30000").verdicts
    assert sum(counted.values()) > 400
    for verdict, judged in now.items():
        before = counted[f'hicache_verdicts_total{{engine="engine:30000",verdict="{verdict}"}}']
        assert abs(judged - before) <= 2, verdict  # under way when a frame was taken


async def test_the_page_shows_what_the_recorded_metrics_say_at_the_same_moment(play, clock) -> None:
    async with play(recording(SESSION)) as client:
        for seconds in (0.0, 177.0, 400.0):
            clock.now = 1000.0 + seconds
            served = dict(samples(await text(client, "/metrics")))
            async with client.get("/state") as answer:
                (engine,) = (await answer.json())["engines"]
            for tier, count in engine["counted"]["requests"].items():
                assert served[f'hicache_requests_total{{engine="engine:30000",tier="{tier}"}}'] == count
            for tier in ("device", "host"):
                assert (
                    served[f'hicache_engine_used_tokens{{engine="engine:30000",tier="{tier}"}}']
                    == (engine["used_tokens"][tier])
                )
            assert engine["counted"]["requests"]["host"] > 0
            assert engine["capacity_tokens"] == {"device": 1024, "host": 4097}
            assert (engine["up"], engine["recorded"]) == (True, "now")


async def test_the_state_says_that_it_is_a_recording_and_of_when(play, clock) -> None:
    async with play(Recording([], (recorded(RING),)), speed=2.0) as client:
        clock.now += 2.0
        async with client.get("/state") as answer:
            told = await answer.json()
    at, since = (datetime.fromisoformat(text) for text in (told["recording"]["at"], told["since"]))
    assert told["recording"]["speed"] == 2.0
    assert (at - since).total_seconds() == pytest.approx(4.0, abs=0.01)
    assert at < datetime.fromisoformat(told["at"])


async def test_recorded_metrics_alone_have_a_card_and_no_time(play, clock) -> None:
    frames = [Frame(at, 'hicache_engine_used_tokens{engine="a:1",tier="host"} 7\n# EOF\n') for at in (0.0, 5.0)]
    async with play(Recording(frames)) as client, client.get("/state") as answer:
        told = await answer.json()
    (engine,) = told["engines"]
    assert (engine["engine"], engine["used_tokens"], engine["recorded"]) == ("a:1", {"host": 7}, "never")
    assert engine["counted"] is None
    counts = [Frame(at, 'hicache_hit_tokens_total{engine="a:1",tier="host"} 7\n# EOF\n') for at in (0.0, 5.0)]
    async with play(Recording(counts)) as client, client.get("/state") as answer:
        (engine,) = (await answer.json())["engines"]
    assert (engine["counted"]["hit_tokens"], engine["recorded"]) == ({"host": 7}, "now")
    assert (told["recording"]["at"], told["since"]) == (None, None)


async def test_recorded_text_that_is_no_metrics_makes_no_card(play, clock) -> None:
    frames = [Frame(at, 'hicache_engine_used_tokens{engine="a:1" many\n') for at in (0.0, 5.0)]
    async with play(Recording(frames)) as client, client.get("/state") as answer:
        assert (await answer.json())["engines"] == []


async def text(client: TestClient, path: str) -> str:
    async with client.get(path) as answer:
        return await answer.text()


async def test_without_rings_it_is_said_why_nothing_can_be_judged(play) -> None:
    async with play(Recording(FRAMES)) as client:
        async with client.get("/proofs/anything") as answer:
            assert answer.status == 404
            assert "this session has metrics only" in (await answer.json())["error"]
        assert await proofs(client) == []
        async with client.get("/-/healthy") as answer:
            assert answer.status == 200


async def test_a_request_of_the_last_round_is_told_from_one_that_never_was(play) -> None:
    async with play(Recording([], (recorded(RING),))) as client, client.get("/proofs/nobody") as answer:
        assert "this is a replay" in (await answer.json())["error"]


def begins(ring: bytes) -> int:
    with tempfile.TemporaryDirectory() as folder:
        return Tape(ring, Path(folder)).first_ns


def test_a_session_with_rings_is_read_again_as_it_was_saved(tmp_path: Path) -> None:
    ring = bytes(range(256))
    save(tmp_path / "s.xz", FRAMES, [ring, ring], 77)
    assert read(tmp_path / "s.xz") == Recording(FRAMES, (ring, ring), 77)
    save(tmp_path / "old.xz", FRAMES)
    assert read(tmp_path / "old.xz") == Recording(FRAMES, (), None)


def test_a_ring_under_another_name_is_the_same_ring(tmp_path: Path) -> None:
    ring = recorded(RING)
    other = renamed(ring, [("127.0.0.1:30000", "engine:31000"), ("./model", "tiny")])
    assert len(other) == len(ring)
    assert other[32768:] == ring[32768:]
    assert b'"host": "engine"' in other
    assert b"./model" not in other
    tape = Tape(other, tmp_path)
    assert tape.last_ns > tape.first_ns


def test_a_folder_of_rings_is_a_recording_and_a_session_may_lie_beside_them(tmp_path: Path) -> None:
    (tmp_path / "a.ring.gz").write_bytes(RING.read_bytes())
    (tmp_path / "b.ring").write_bytes(gzip.decompress(RING.read_bytes()))
    (tmp_path / "notes.txt").write_text("not read")
    assert recording(tmp_path) == Recording([], (recorded(RING),) * 2)
    save(tmp_path / "s.xz", FRAMES)
    assert recording(tmp_path).frames == FRAMES


@pytest.mark.parametrize(
    ("files", "says"),
    [
        ({}, "holds no session"),
        ({"a.xz": b"", "b.xz": b""}, "holds 2 sessions"),
        ({"a.xz": b"text"}, "is no recorded session"),
        ({"a.xz": b'{"a": "certificate"}'}, r"a session is a \*\.xz file"),
        ({"a.ring.gz": b"text"}, "is no recorded session"),
        ({"a.ring.gz": gzip.compress(b"text")[:10] + b"\xff" * 20}, "is no recorded session"),
        ({"a.xz": lzma.compress(b"[" * 100_000)}, "is no recorded session"),
        ({"a.xz": lzma.compress(b'["soon", "up 1"]')}, "is no recorded session"),
        ({"a.xz": lzma.compress(b"[1" + b"0" * 400 + b', "up 1"]')}, "is no recorded session"),
        ({"a.xz": lzma.compress(b'[0, "up \\ud800"]')}, "is no recorded session"),
    ],
)
def test_what_is_no_recording_is_refused(tmp_path: Path, files: dict[str, bytes], says: str) -> None:
    for name, content in files.items():
        (tmp_path / name).write_bytes(content)
    with pytest.raises(NothingToReplayError, match=says):
        recording(tmp_path)


def test_what_unpacks_to_too_much_is_refused_before_it_is_held(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(model, "LARGEST", 1000)
    monkeypatch.setattr(tape, "LARGEST", 1000)
    (tmp_path / "a.xz").write_bytes(lzma.compress(b" " * 1001))
    (tmp_path / "a.ring.gz").write_bytes(gzip.compress(bytes(1001)))
    for reading in (recording, recorded_alone):
        with pytest.raises(NothingToReplayError, match="unpacks to more than"):
            reading(tmp_path)


def recorded_alone(folder: Path) -> Recording:
    (folder / "a.xz").unlink()
    return recording(folder)


@pytest.mark.parametrize("times", [(5, 3, 9), (0, 0), (math.nan, math.nan), (0, math.inf), (-1e308, 1e308)])
def test_times_that_do_not_go_forwards_are_refused(tmp_path: Path, times: tuple[float, ...]) -> None:
    with pytest.raises(NothingToReplayError, match="its metrics can't be played"):
        Player(Recording([Frame(at, "up 1\n") for at in times]), 1.0, tmp_path)


@pytest.mark.parametrize("begin_ns", [1 << 62, -(1 << 62), 10**400])
def test_rings_of_another_time_than_the_session_says_are_refused(tmp_path: Path, begin_ns: int) -> None:
    with pytest.raises(NothingToReplayError, match="of another time than it says"):
        Player(Recording(FRAMES, (recorded(RING),), begin_ns), 1.0, tmp_path)


def test_a_line_that_is_no_sample_is_served_as_it_is(tmp_path: Path) -> None:
    frames = [Frame(at, "a_total many\nb_total 2\n") for at in (0.0, 5.0)]
    clock = Clock()
    player = Player(Recording(frames), 1.0, tmp_path, clock)
    clock.now += player.seconds
    assert player.metrics() == "a_total many\nb_total 2.0\n"


@pytest.mark.parametrize("told", [Recording([]), Recording(FRAMES[:1]), Recording([], (b"no ring",))])
def test_what_can_not_be_played_is_refused(tmp_path: Path, told: Recording) -> None:
    with pytest.raises(NothingToReplayError):
        Player(told, 1.0, tmp_path)


def without_records() -> bytes:
    """Of another process; only its header."""
    ring = bytearray(recorded(RING))
    ring[64:72] = bytes(8)  # its head: nothing was ever written
    *first, pid, middle, created_ns = HEADER.unpack_from(ring)
    HEADER.pack_into(ring, 0, *first, pid + 1, middle, created_ns)
    return bytes(ring)


def test_rings_of_nothing_but_their_headers_are_refused(tmp_path: Path) -> None:
    with pytest.raises(NothingToReplayError, match="no ring with a record"):
        Player(Recording([], (without_records(),)), 1.0, tmp_path)


def test_an_idle_engine_beside_another_one_is_no_obstacle(tmp_path: Path) -> None:
    player = Player(Recording([], (without_records(), recorded(RING))), 1.0, tmp_path)
    assert [tape.first_ns for tape in player.tapes] == [begins(recorded(RING))]
