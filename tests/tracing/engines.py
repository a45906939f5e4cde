"""The fake engines, imported fresh with the plugin attached, and gone again afterwards."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

from hicache_tracing import plugin
from hicache_tracing.config import Settings
from hicache_tracing.session import Session

from .ring import Ring, read

FAKES = Path(__file__).parent / "fake_engine"
SHARED = FAKES / "shared"
RELEASES = ("v0523", "v059")
SCHEDULER = "sglang.srt.managers.scheduler"


@contextmanager
def importable(release: str, folder: Path = FAKES) -> Iterator[None]:
    """The fake engine of a release on the path; afterwards none of its modules is left."""
    before = list(sys.path)
    sys.path[:0] = [str(folder / release), str(SHARED)]
    importlib.invalidate_caches()
    try:
        yield
    finally:
        sys.path[:] = before
        for name in [name for name in sys.modules if name.partition(".")[0] in ("sglang", "engine_parts")]:
            del sys.modules[name]


@dataclass
class Engine:
    """A running fake engine, with the plugin in it unless ``session`` is None."""

    release: str
    scheduler: Any
    session: Session | None

    @property
    def tree(self) -> Any:
        return self.scheduler.tree_cache

    def module(self, name: str) -> ModuleType:
        return sys.modules[f"sglang.srt.{name}"]

    def mode(self, name: str) -> Any:
        """A member of the engine's ForwardMode."""
        return sys.modules["engine_parts"].ForwardMode[name]

    def ring(self) -> Ring:
        return read(self.session.recorder.path)

    def steps(self, count: int = 1) -> None:
        for _ in range(count):
            self.scheduler.step()

    def serve(self, rid: str, prompt: list[int], max_new_tokens: int = 1) -> Any:
        """One request from its arrival to its end, with all copies finished."""
        req = self.scheduler.receive(rid, prompt, max_new_tokens)
        while not req.finished():
            self.scheduler.step()
        self.settle()
        return req

    def settle(self) -> None:
        """Every copy ends and the engine has noticed."""
        self.scheduler.finish_copies()
        self.scheduler.tree_cache.check_hicache_events()


def arguments(**others: Any) -> SimpleNamespace:
    return SimpleNamespace(
        **{
            "device_tokens": 1000,
            "host_tokens": 3000,
            "hicache_write_policy": "write_through",
            "tp_size": 2,
            "model_path": "tiny",
            "served_model_name": "tiny-chat",
            "hicache_io_backend": "direct",
            "hicache_mem_layout": "layer_first",
            "host": "127.0.0.1",
            "port": 30000,
            **others,
        }
    )


def launch(release: str, session: Session | None, **others: Any) -> Engine:
    """Import the engine (inside ``importable``) and make its scheduler."""
    module = importlib.import_module(SCHEDULER)
    return Engine(release, module.Scheduler(arguments(**others), None), session)


@contextmanager
def engine(
    release: str, folder: Path, settings: dict[str, Any] | None = None, *, fakes: Path = FAKES, **others: Any
) -> Iterator[Engine]:
    """A fake engine with the plugin attached as SGLang attaches it: before the engine's modules are imported."""
    with importable(release, fakes):
        session = plugin.start(Settings(folder=str(folder), **{"capacity": 4096, **(settings or {})}))
        try:
            yield launch(release, session, **others)
        finally:
            plugin.stop()
