"""Clients that are too many, too slow or hostile: the sidecar stays in its limits, and serves the next one."""

from __future__ import annotations

import asyncio
import socket
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import aiohttp
import httpx
import pytest

from .fake_engine import FakeEngine, RealSidecar
from .process_figures import ProcessFigures

CLIENTS = 200
MIB_MORE = 64.0
RECOVERS_WITHIN = 30.0
LET_GO_WITHIN = 20.0
PATHS = ("/metrics", "/proofs?limit=512", "/proofs/nobody?wait=2", "/state", "/metrics?collect[]=hits")
ALTERED = str(Path(__file__).with_name("altered_sidecar.py"))


@contextmanager
def running(folder: Path, alteration: str) -> Iterator[RealSidecar]:
    """The sidecar of altered_sidecar.py, and an engine whose records it reads."""
    rings = folder / "rings"
    rings.mkdir(mode=0o700)
    engine = FakeEngine(rings, folder / "account", 1000)
    try:
        sidecar = RealSidecar(rings, folder / "sidecar.log", program=(ALTERED, alteration))
        try:
            yield sidecar
        finally:
            sidecar.kill()
    finally:
        engine.kill()


@pytest.fixture(scope="module")
def sidecar(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealSidecar]:
    with running(tmp_path_factory.mktemp("clients"), "hurries") as sidecar:
        yield sidecar


class Limits:
    """``with Limits(sidecar):`` what it takes meanwhile stays in bounds, and afterwards it is as it was before."""

    def __init__(self, sidecar: RealSidecar) -> None:
        self._sidecar, self._process = sidecar, ProcessFigures(sidecar.process.pid)

    def __enter__(self) -> Limits:
        assert self._sidecar.get("/metrics").status_code == 200
        self._before = self._process.look()
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None:
            self.check_memory()
            self._check_recovery()

    def check_memory(self) -> None:
        now = self._process.look()["private_mib"]
        assert now < self._before["private_mib"] + MIB_MORE, "it takes memory"

    def _check_recovery(self) -> None:
        deadline = time.monotonic() + RECOVERS_WITHIN
        while (now := self._process.look()["descriptors"]) > self._before["descriptors"] + 1:
            assert time.monotonic() < deadline, f"{now:.0f} descriptors stay open"
            time.sleep(0.1)
        answer = self._sidecar.get("/metrics")
        assert answer.status_code == 200
        assert "hicache_requests_total" in answer.text


def connect(sidecar: RealSidecar, request: bytes) -> socket.socket:
    host, port = sidecar.address.split(":")
    client = socket.create_connection((host, int(port)), timeout=min(30, sidecar.patience))
    client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    try:
        client.sendall(request)
    except OSError:
        client.close()
        raise
    return client


# -- the attacks ---------------------------------------------------------------------------------------------------
def many_at_once(sidecar: RealSidecar, rounds: int = 1) -> None:
    async def ask(session: aiohttp.ClientSession, number: int) -> int:
        async with session.get(sidecar.url + PATHS[number % len(PATHS)]) as answer:
            await answer.read()
            return answer.status

    async def all_at_once() -> Counter[int]:
        unlimited = aiohttp.TCPConnector(limit=0)
        async with aiohttp.ClientSession(connector=unlimited, timeout=aiohttp.ClientTimeout(120)) as session:
            return Counter(await asyncio.gather(*(ask(session, number) for number in range(CLIENTS))))

    with Limits(sidecar):
        for _ in range(rounds):
            statuses = asyncio.run(all_at_once())
            assert statuses.keys() <= {200, 404, 503}, statuses
            assert statuses[200] > CLIENTS // 10


def readers_that_never_read(sidecar: RealSidecar) -> None:
    with Limits(sidecar) as limits, ExitStack() as clients:
        for number in range(CLIENTS):
            path = PATHS[number % 2].encode()
            clients.enter_context(connect(sidecar, b"GET %s HTTP/1.1\r\nHost: x\r\n\r\n" % path))
        limits.check_memory()
        assert sidecar.get("/-/healthy").status_code == 200, "others are served meanwhile"
        assert "hicache_requests_total" in sidecar.get("/metrics").text


def requests_that_never_end(sidecar: RealSidecar) -> None:
    with Limits(sidecar) as limits, ExitStack() as stack:
        unended = b"GET /metrics HTTP/1.1\r\nHost: x\r\nX-Slow: "
        clients = [stack.enter_context(connect(sidecar, unended)) for _ in range(CLIENTS)]
        limits.check_memory()
        assert sidecar.get("/metrics").status_code == 200, "others are served meanwhile"
        deadline = time.monotonic() + LET_GO_WITHIN
        for client in clients:
            client.settimeout(max(deadline - time.monotonic(), 0.01))
            assert ended(client), "a client that never asks is held for ever"


def ended(client: socket.socket) -> bool:
    try:
        return client.recv(1) == b""
    except TimeoutError:
        return False
    except OSError:
        return True


BOMBS = {
    "one long header": b"GET /metrics HTTP/1.1\r\nHost: x\r\nX-Bomb: " + b"a" * (8 << 20),
    "many headers": b"GET /metrics HTTP/1.1\r\nHost: x\r\n" + b"".join(b"X-%d: a\r\n" % n for n in range(400_000)),
    "a long path": b"GET /" + b"a" * (8 << 20) + b" HTTP/1.1\r\nHost: x\r\n\r\n",
    "a body": b"POST /proofs HTTP/1.1\r\nHost: x\r\nContent-Length: 8388608\r\n\r\n" + b"a" * (8 << 20),
    "chunks": b"GET /metrics HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n" + b"1\r\na\r\n" * 500_000,
    "noise": bytes(range(256)) * 4096,
}


def bombs(sidecar: RealSidecar, bomb: bytes = BOMBS["one long header"]) -> None:
    """Ten at once are turned away or cut off, and nothing of them stays in memory."""
    with Limits(sidecar) as limits, ExitStack() as clients:
        sent = []
        for _ in range(10):
            with suppress(OSError):  # cut off while it was still sending
                sent.append(clients.enter_context(connect(sidecar, bomb)))
        limits.check_memory()
        for client in sent:
            with suppress(OSError):
                answer = client.recv(100)
                assert not answer or answer.split()[1][:1] in (b"2", b"4"), answer


# -- the sidecar stands them ---------------------------------------------------------------------------------------
@pytest.mark.parametrize("rounds", [1, pytest.param(30, marks=pytest.mark.chaos)])
def test_two_hundred_at_once(sidecar: RealSidecar, rounds: int) -> None:
    many_at_once(sidecar, rounds)


def test_readers_that_never_read(sidecar: RealSidecar) -> None:
    readers_that_never_read(sidecar)


def test_requests_that_never_end(sidecar: RealSidecar) -> None:
    requests_that_never_end(sidecar)


@pytest.mark.parametrize("bomb", BOMBS.values(), ids=BOMBS)
def test_bombs(sidecar: RealSidecar, bomb: bytes) -> None:
    bombs(sidecar, bomb)


# -- and one without its protection does not ------------------------------------------------------------------------
@pytest.mark.stack
@pytest.mark.parametrize(
    ("attack", "alteration", "noticed"),
    [
        (many_at_once, "hoards", "it takes memory"),
        (many_at_once, "forgets_to_close", "descriptors stay open"),
        (readers_that_never_read, "waits_for_readers", "timed out"),
        (requests_that_never_end, "waits_for_ever", "held for ever"),
        (bombs, "reads_whatever_comes", "it takes memory"),
    ],
    ids=lambda value: getattr(value, "__name__", value),
)
def test_what_would_be_noticed(
    attack: Callable[[RealSidecar], None],
    alteration: str,
    noticed: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for limit in ("RECOVERS_WITHIN", "LET_GO_WITHIN"):
        monkeypatch.setitem(globals(), limit, 2.0)
    with running(tmp_path, alteration) as broken:
        broken.patience = 5.0
        with pytest.raises((AssertionError, httpx.TimeoutException, TimeoutError), match=noticed):
            attack(broken)
