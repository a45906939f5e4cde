"""The whole demo: two engines, the sidecar, the lab; and everything is gone afterwards, however it ends."""

from __future__ import annotations

import time
from collections.abc import Iterator
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple, NoReturn

from hicache_proof.demo import environment
from hicache_proof.demo.engine import Engine, EngineSpec
from hicache_proof.demo.errors import EndedError
from hicache_proof.demo.sidecar import Sidecar
from hicache_proof.demo.stopwatch import Stopwatch
from hicache_proof.demo.store import Say
from hicache_proof.lab.lab import Target, connected
from hicache_proof.lab.options import Options
from hicache_proof.lab.plan import REPETITIONS
from hicache_proof.lab.run import LabRun
from hicache_proof.lab.series import Progress

# Large enough that reading L2 saves work even on this model, small enough for two cores.
WITNESSED = EngineSpec(max_total_tokens=4096, chunked_prefill_size=2048)
CONTROL = replace(WITNESSED, hicache=False, witness=False)
LOOK_SECONDS = 1.0


class Stage(NamedTuple):
    """What runs while the demo is on stage."""

    engine: Engine
    control: Engine
    sidecar: Sidecar


@contextmanager
def on_stage(folder: Path, watch: Stopwatch, say: Say) -> Iterator[Stage]:
    """Starts everything, and ends it when the block ends. Logs go to ``folder``. Raises DemoError."""
    with watch.stage("environment"):
        environment.ensure(WITNESSED.version, say)
    engine, control = Engine(WITNESSED, folder / "engine", say), Engine(CONTROL, folder / "control", say)
    with ExitStack() as stack:
        for server in (engine, control):
            stack.callback(server.close)
        with watch.stage("both engines (SGLang with HiCache, and without as the control)"):
            _start_together(engine, control)
        sidecar = Sidecar(engine.url, engine.rings, folder)
        with watch.stage("sidecar"):
            stack.enter_context(sidecar)
        yield Stage(engine, control, sidecar)


def keep(stage: Stage) -> NoReturn:
    """Until Ctrl-C. Raises EndedError when one of them ends by itself."""
    parts: dict[str, Engine | Sidecar] = {
        "the engine": stage.engine,
        "the control": stage.control,
        "metrics and proofs": stage.sidecar,
    }
    while True:
        for name, part in parts.items():
            if part.ended is not None:
                raise EndedError(f"{name} at {part.url} is gone: {part.ended}")
        time.sleep(LOOK_SECONDS)


def prove(stage: Stage, command: str, progress: Progress) -> LabRun:
    """Raises CannotRunError."""
    target = Target(stage.engine.url, stage.control.url, stage.sidecar.url)
    with connected(target, Options(prefix_tokens=None, repetitions=REPETITIONS)) as lab:
        return lab.run(progress, command)


def _start_together(*engines: Engine) -> None:
    """Both at once: most of a start is one core reading Python modules."""
    with ThreadPoolExecutor(len(engines)) as threads, ExitStack() as stack:
        for engine in engines:
            stack.callback(engine.close)  # on the way out of a failure, so that no thread waits for a dead engine
        starts = [threads.submit(engine.start) for engine in engines]
        for start in wait(starts, return_when=FIRST_EXCEPTION).done:
            start.result()
        stack.pop_all()
