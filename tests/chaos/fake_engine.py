"""The processes of a chaos test: an engine that only records (benchmarks/ring_writer.py), and the real sidecar."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import httpx
from prometheus_client.parser import text_string_to_metric_families

from hicache_proof.demo.ports import free_port

from .benchmark_scripts import ring_writer


class FakeEngine:
    """Records stories, ``rate`` records a second, until it is killed. Ready when the constructor returns."""

    def __init__(self, rings: Path, account: Path, rate: float, *options: str) -> None:
        self._account = account
        command = [sys.executable, ring_writer.__file__, str(rings), "--rate", str(rate), "--account", str(account)]
        command += options
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        assert self.process.stdout is not None
        assert self.process.stdout.readline() == b"writing\n"

    @property
    def written(self) -> Any:
        """Its Account."""
        return ring_writer.read_account(self._account)

    def pause(self) -> None:
        os.kill(self.process.pid, signal.SIGSTOP)
        time.sleep(0.01)

    def go_on(self) -> None:
        os.kill(self.process.pid, signal.SIGCONT)

    def kill(self) -> None:
        self.process.kill()
        self.process.communicate()


AS_IT_IS = ("-m", "hicache_exporter")


class RealSidecar:
    """``hicache-witness serve`` without GPU; ready when the constructor returns."""

    patience = 60.0
    """Seconds that ``get`` waits."""

    def __init__(self, rings: Path, log: Path, *options: str, program: Sequence[str] = AS_IT_IS) -> None:
        command = [sys.executable, *program, "serve", "--ring-dir", str(rings), *options]
        command += [f"--no-collector.{name}" for name in ("gpu", "pcie", "host")]
        deadline = time.monotonic() + 60
        while not self._start(command, log, deadline):
            pass  # somebody took the port between our choice and the start

    def _start(self, command: list[str], log: Path, deadline: float) -> bool:
        self.address = f"127.0.0.1:{free_port()}"
        self.url = f"http://{self.address}"
        with log.open("ab") as output:
            self.process = subprocess.Popen([*command, "--listen", self.address], stdout=output, stderr=output)
        while f"serving on {self.url}," not in log.read_text() or not self._ready():
            assert time.monotonic() < deadline, log.read_text()
            if self.process.poll() is not None:
                assert f"{self.address} is in use already" in log.read_text(), log.read_text()
                return False
            time.sleep(0.02)
        return True

    def _ready(self) -> bool:
        try:
            return self.get("/-/ready").is_success
        except httpx.TransportError:
            return False

    def get(self, path: str) -> httpx.Response:
        return httpx.get(f"{self.url}{path}", timeout=self.patience, trust_env=False)

    def series(self) -> dict[str, float]:
        """{name{label=value,...}: value}, without the label ``engine``."""
        found = {}
        for family in text_string_to_metric_families(self.get("/metrics").raise_for_status().text):
            for sample in family.samples:
                labels = ",".join(
                    f"{name}={value}" for name, value in sorted(sample.labels.items()) if name != "engine"
                )
                found[f"{sample.name}{{{labels}}}" if labels else sample.name] = sample.value
        return found

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()
