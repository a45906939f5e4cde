"""The whole stack on this machine: the real engine on CPU, the real sidecar, Debian's Prometheus and Alertmanager."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from hicache_proof.demo.engine import Engine, EngineSpec
from hicache_proof.demo.ports import free_port

from . import traced
from .programs import FAST, Alertmanager, Prometheus, Webhook, running
from .receiver import Receiver
from .traffic import Traffic

LAST = ("test_incidents.py", "test_gallery.py")
"""By then an engine has its norm without anybody having waited for it, and the boards have something to show."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    places = [place for place, item in enumerate(items) if item.path.parent == Path(__file__).parent]
    ordered = sorted((items[place] for place in places), key=lambda item: _turn(item.path.name))
    for place, item in zip(places, ordered, strict=True):
        items[place] = item


def _turn(file: str) -> int:
    return LAST.index(file) if file in LAST else -1


@dataclass
class Stack:
    engine: Engine
    sidecar: str
    """host:port"""
    prometheus: Prometheus
    webhook: Webhook
    receiver: Receiver
    """Of the spans of the sidecar, and of the engine's own where it is told to trace."""
    traffic: Traffic
    switches: Path
    folder: Path
    sidecars: ExitStack
    """Closed to stop the sidecar."""

    @contextmanager
    def fault(self, name: str) -> Iterator[None]:
        (self.switches / name).touch()
        yield
        (self.switches / name).unlink()

    @contextmanager
    def frozen(self) -> Iterator[None]:
        """The engine answers nobody, as if its machine had stopped."""
        pids = self.engine.pids
        for pid in pids:
            os.kill(pid, signal.SIGSTOP)
        yield
        for pid in pids:
            os.kill(pid, signal.SIGCONT)

    def start_sidecar(self) -> None:
        command = ["env", *(f"{name}={value}" for name, value in self.receiver.variables.items())]
        command += [sys.executable, "-m", "hicache_exporter", "serve", "--engine", self.engine.url]
        command += ["--ring-dir", str(self.engine.rings), "--listen", self.sidecar]
        log, ready = self.folder / "sidecar.log", f"http://{self.sidecar}/-/ready"
        self.sidecars.enter_context(running(command, log, ready))


@pytest.fixture(scope="session")
def webhook() -> Iterator[Webhook]:
    with Webhook().run() as webhook:
        yield webhook


@pytest.fixture(scope="session")
def stack(tmp_path_factory: pytest.TempPathFactory, webhook: Webhook) -> Iterator[Stack]:
    folder = tmp_path_factory.mktemp("stack")
    switches = folder / "switches"
    switches.mkdir()
    receiver = Receiver("grpc")
    spec = EngineSpec(
        paths=(Path(__file__).parent / "faults", traced.lend_packages(folder / "packages")),
        variables={"FAULT_SWITCHES": str(switches)},
        arguments=traced.arguments(receiver.port),
    )
    sidecar = f"127.0.0.1:{free_port()}"
    with ExitStack() as programs:
        sidecars = programs.enter_context(ExitStack())
        programs.enter_context(receiver.run())
        engine = programs.enter_context(Engine(spec, folder / "engine"))
        traced.set_level(engine.url, 0)
        alertmanager = programs.enter_context(Alertmanager(folder / "alertmanager", webhook.url).run())
        prometheus = Prometheus(folder / "prometheus", [{"targets": [sidecar]}], f"127.0.0.1:{alertmanager.port}", FAST)
        traffic = programs.enter_context(Traffic(engine.url))
        stack = Stack(engine, sidecar, prometheus, webhook, receiver, traffic, switches, folder, sidecars)
        stack.start_sidecar()
        programs.enter_context(prometheus.run())
        yield stack
        sidecars.close()
