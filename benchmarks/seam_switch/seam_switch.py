"""On an engine's PYTHONPATH: takes the plugin's seams out of the running process, and puts them in again.

With $SEAM_SWITCH, a folder, each process of the engine writes there PID, holding ``in``. On SIGUSR2 it puts the
engine's own functions back, which is what a process without the plugin has, on SIGUSR1 ours; then the file says
``out`` or ``in``. $SEAM_SWITCH_PLANTED: microseconds to lose in every batch while the seams are in; a benchmark that
does not show them shows nothing.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path
from typing import Any


def register() -> None:
    folder = os.environ.get("SEAM_SWITCH")
    if not folder:
        return
    at = Path(folder) / str(os.getpid())
    signal.signal(signal.SIGUSR1, lambda *_: switch(at, seams=True))
    signal.signal(signal.SIGUSR2, lambda *_: switch(at, seams=False))
    say(at, "in")


def switch(at: Path, *, seams: bool) -> None:
    from hicache_tracing import plugin

    for patch in plugin._patches if seams else plugin._patches[::-1]:
        if seams:
            patch.apply()
            elsewhere = patch.original, patch.wrapper
        else:
            patch.revert()
            elsewhere = patch.wrapper, patch.original
        if not isinstance(patch.owner, type):  # a module's function, which others imported by name
            for module in plugin.holders(patch.name, elsewhere[0]):
                setattr(module, patch.name, elsewhere[1])
    if seams and plugin._session is not None:  # what happened meanwhile was not told
        plugin._session.host_copies.forget()
        plugin._session.first_tokens.untold()
    plant(float(os.environ.get("SEAM_SWITCH_PLANTED", 0)) if seams else 0)
    say(at, "in" if seams else "out")


def plant(microseconds: float) -> None:
    """Lose time in the scheduler's own loop, or lose none."""
    module: Any = sys.modules.get("sglang.srt.managers.scheduler")
    scheduler = getattr(module, "Scheduler", None)
    if scheduler is None:
        return
    original = getattr(scheduler.run_batch, "original", scheduler.run_batch)

    def slower(*args: Any, **kwargs: Any) -> Any:
        until = time.perf_counter_ns() + microseconds * 1000
        while time.perf_counter_ns() < until:
            pass
        return original(*args, **kwargs)

    slower.original = original  # type: ignore[attr-defined]
    if microseconds:
        scheduler.run_batch = slower
    elif original is not scheduler.run_batch:
        scheduler.run_batch = original


def say(at: Path, what: str) -> None:
    new = at.with_suffix(".new")
    new.write_text(what)
    new.replace(at)
