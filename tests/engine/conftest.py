"""Real SGLang servers on CPU. A start takes half a minute, so tests share servers where they can.

``engines(spec)`` gives a running server of that spec, perhaps one that an earlier test has used: flush it first.
``engine`` is the one of ``EngineSpec()``. A test that kills its server or counts from zero makes an ``Engine`` itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from hicache_proof.demo.engine import Engine, EngineSpec

KEPT = 2
"""Servers alive at a time: each takes 2 GB."""
FAULTS = Path(__file__).parent / "faults"


class Engines:
    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._alive: list[Engine] = []
        self._started = 0

    def __call__(self, spec: EngineSpec) -> Engine:
        engine = next((engine for engine in self._alive if engine.spec == spec and engine.alive), None)
        if engine is None:
            while len(self._alive) >= KEPT:
                self._alive.pop(0).close()
            self._started += 1
            engine = Engine(spec, self._folder / str(self._started)).start()
        else:
            self._alive.remove(engine)
        self._alive.append(engine)  # the one used last is given up last
        return engine

    def close(self) -> None:
        for engine in self._alive:
            engine.close()


@pytest.fixture(scope="session")
def engines(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engines]:
    engines = Engines(tmp_path_factory.mktemp("engines"))
    yield engines
    engines.close()


@pytest.fixture
def engine(engines: Engines) -> Engine:
    return engines(EngineSpec())


@pytest.fixture
def faulty() -> Callable[..., EngineSpec]:
    """``faulty(load_back="zero")``: the spec of an engine with that fault; see faults/sitecustomize.py."""

    def spec(
        load_back: str = "", lose: str = "", seam: str = "", part: str = "", hold: str = "", **wanted: object
    ) -> EngineSpec:
        faults = {
            "FAULT_LOAD_BACK": load_back,
            "FAULT_LOSE": lose,
            "FAULT_SEAM": seam,
            "FAULT_PART": part,
            "FAULT_HOLD": hold,
        }
        return EngineSpec(paths=(FAULTS,), variables=faults, **wanted)  # type: ignore[arg-type]

    return spec
