"""The real sidecar as a process of its own, asked as Prometheus asks it."""

from __future__ import annotations

import gzip
import http.client
import os
import re
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType

from hicache_proof.demo.ports import free_port

STAND_INS = Path(__file__).parent / "stand_ins"
HEADERS = {
    "Accept": "application/openmetrics-text;version=1.0.0;q=0.75,text/plain;version=0.0.4;q=0.5,*/*;q=0.1",
    "Accept-Encoding": "gzip",
    "X-Prometheus-Scrape-Timeout-Seconds": "10",
}


class Sidecar:
    """``with Sidecar(engines, rings) as sidecar``: ready when it is entered. ``gpus``: how many a stand-in shows."""

    def __init__(
        self,
        engines: Sequence[str],
        rings: Path | str,
        gpus: int = 0,
        options: Sequence[str] = (),
        variables: Mapping[str, str] | None = None,
    ) -> None:
        self.port = free_port()
        named = [word for engine in engines for word in ("--engine", engine)]
        place = ["--ring-dir", str(rings), "--listen", f"127.0.0.1:{self.port}", "--log-level", "error"]
        self._command = [sys.executable, "-m", "hicache_exporter", "serve", *named, *place, *options]
        inherited = {name: value for name, value in os.environ.items() if not name.startswith(("OTEL_", "HICACHE_"))}
        shown = {"PYTHONPATH": str(STAND_INS), "STAND_IN_GPUS": str(gpus)} if gpus else {}
        self._environment = {**inherited, **shown, **(variables or {})}
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def __enter__(self) -> Sidecar:
        self._process = subprocess.Popen(self._command, env=self._environment)
        self.connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
        deadline = time.monotonic() + 30
        while time.monotonic() < deadline:
            try:
                if self.get("/-/ready")[0] == http.HTTPStatus.OK:
                    return self
            except OSError:
                self.connection.close()
            time.sleep(0.1)
        self.__exit__(None, None, None)
        raise SystemExit("the sidecar was not ready in 30 seconds")

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        assert self._process is not None
        self.connection.close()
        self._process.terminate()
        try:
            self._process.wait(5)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def get(self, path: str) -> tuple[int, bytes]:
        self.connection.request("GET", path, headers=HEADERS)
        answer = self.connection.getresponse()
        body = answer.read()
        return answer.status, gzip.decompress(body) if answer.headers["Content-Encoding"] == "gzip" else body

    def scrape(self) -> tuple[float, str]:
        """Seconds that it took until the last byte was here, and the text."""
        began = time.perf_counter()
        self.connection.request("GET", "/metrics", headers=HEADERS)
        answer = self.connection.getresponse()
        body = answer.read()
        took = time.perf_counter() - began
        if answer.status != http.HTTPStatus.OK:
            raise SystemExit(f"the sidecar answered {answer.status}")
        return took, (gzip.decompress(body) if answer.headers["Content-Encoding"] == "gzip" else body).decode()


def values(text: str, family: str) -> list[float]:
    """Of all series of a sample's name, whatever their labels."""
    return [float(value) for value in re.findall(rf"^{family}(?:{{[^}}\n]*}})? (\S+)", text, re.MULTILINE)]


def series(text: str) -> int:
    return sum(not line.startswith("#") for line in text.splitlines() if line)
