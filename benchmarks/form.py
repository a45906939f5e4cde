"""The one form of a benchmark's figures: printed for people, and on demand appended as lines to a history.

A line says by itself what was measured, how (the command), where and when. ``others_cores`` is what other processes
took of this machine meanwhile: on a busy one, times are too long.
"""

from __future__ import annotations

import argparse
import os
import platform
import resource
import shlex
import subprocess
import sys
import time
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

import msgspec

ROOT = Path(__file__).resolve().parents[1]
HISTORY = ROOT / "benchmarks" / "history.jsonl"
BUSY_CORES = 0.3
"""Others that take more than this of the machine make times longer."""


class Machine(msgspec.Struct, frozen=True, omit_defaults=True):
    """None: it was not noted."""

    cpu: str | None = None
    cores: int | None = None
    python: str | None = None
    gpu: str | None = None


class Target(msgspec.Struct, frozen=True):
    bound: Literal["at_most", "at_least"]
    value: float

    def met_by(self, value: float) -> bool:
        return value <= self.value if self.bound == "at_most" else value >= self.value


class Line(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """One figure of one run. ``value`` None: it was tried and says nothing, ``note`` says why."""

    name: str
    figure: str
    value: float | None
    unit: str
    target: Target | None = None
    met: bool | None = None
    percentiles: dict[str, float] | None = None
    interval: tuple[float, float] | None = None
    note: str = ""
    command: str
    machine: Machine
    date: str
    commit: str | None = None
    load_average: float | None = None
    others_cores: float | None = None
    retired: str = ""
    """Why it counts no more, although no newer line has its name: it was wrong, or another method has taken over."""

    @property
    def busy(self) -> bool:
        return self.others_cores is not None and self.others_cores > BUSY_CORES


def at_most(value: float) -> Target:
    return Target("at_most", value)


def at_least(value: float) -> Target:
    return Target("at_least", value)


def options(doc: str | None) -> argparse.ArgumentParser:
    """The parser of a benchmark: its own help text, and where to keep the figures."""
    parser = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--history", type=Path, metavar="FILE", help="append the figures to FILE, a JSON line each")
    return parser


class Bench:
    """The figures of one run of one benchmark; made before anything is measured, ended after.

    ``now`` False: they are made of what an earlier run has left, so how busy this machine is says nothing.
    """

    def __init__(self, name: str, history: Path | None, gpu: str | None = None, *, now: bool = True) -> None:
        self.lines: list[Line] = []
        self._name, self._history = name, history
        self._machine = machine(gpu)
        self._load = os.getloadavg()[0] if now else None
        self._began = _Processors() if now else None

    def add(
        self,
        figure: str,
        value: float | None,
        unit: str,
        target: Target | None = None,
        *,
        percentiles: dict[str, float] | None = None,
        interval: tuple[float, float] | None = None,
        note: str = "",
    ) -> None:
        value = rounded(value)  # what is kept is what is held against the target
        self.lines.append(
            Line(
                name=self._name,
                figure=figure,
                value=value,
                unit=unit,
                target=target,
                met=None if target is None or value is None else target.met_by(value),
                percentiles=percentiles and {name: rounded(one) or 0.0 for name, one in percentiles.items()},
                interval=interval and (rounded(interval[0]) or 0.0, rounded(interval[1]) or 0.0),
                note=note,
                command=command(),
                machine=self._machine,
                date=datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
                commit=_commit(),
                load_average=rounded(self._load),
            )
        )

    def end(self) -> int:
        """Print the figures, keep them if asked to. Returns an exit code: a target that is missed is no failure."""
        others = rounded(self._began.others()) if self._began is not None else None
        self.lines = [msgspec.structs.replace(line, others_cores=others) for line in self.lines]
        for line in self.lines:
            print(text(line))
        if others is not None and others > BUSY_CORES:
            print(f"  other processes took {others:.1f} of {self._machine.cores} cores meanwhile: times are too long")
        if self._history is not None:
            with self._history.open("ab") as file:
                file.writelines(msgspec.json.encode(line) + b"\n" for line in self.lines)
        return 0


def text(line: Line) -> str:
    value = f"{number(line.value):>12} {line.unit}"
    spread = f"  ({spread_of(line)})" if spread_of(line) else ""
    missed = "   MISSED" if line.met is False else ""
    target = f"   target {target_of(line)}{missed}" if line.target else ""
    return f"  {line.figure:58} {value}{spread}{target}"


def spread_of(line: Line) -> str:
    parts = [f"{name} {number(value)}" for name, value in (line.percentiles or {}).items()]
    if line.interval is not None:
        parts.append(f"95 % {number(line.interval[0])} to {number(line.interval[1])}")
    return ", ".join(parts)


def target_of(line: Line) -> str:
    if line.target is None:
        return ""
    return f"{'≤' if line.target.bound == 'at_most' else '≥'} {number(line.target.value)}"


def number(value: float | None) -> str:
    """Three significant digits, whole from a thousand on."""
    if value is None:
        return "none"
    return f"{value:,.0f}" if abs(value) >= 1000 or value == int(value) else f"{value:.3g}"


def rounded(value: float | None) -> float | None:
    """Four significant digits: more would claim a precision that no figure here has. Counts stay whole."""
    return value if value is None or value == int(value) else float(f"{value:.4g}")


def percentiles(values: Iterable[float], *shares: float) -> dict[str, float]:
    """{"p50": ..., "p99": ...} of some values."""
    ordered = sorted(values)
    return {f"p{share:g}": ordered[min(len(ordered) - 1, int(len(ordered) * share / 100))] for share in shares}


def read(history: Path) -> list[Line]:
    """All lines, in the order in which they were written. Raises ValueError with the number of a bad one."""
    lines = []
    for index, raw in enumerate(history.read_bytes().splitlines(), 1):
        try:
            line = msgspec.json.decode(raw, type=Line)
        except msgspec.MsgspecError as error:
            raise ValueError(f"{history.name}, line {index}: {error}") from error
        meets = None if line.target is None or line.value is None else line.target.met_by(line.value)
        if meets is not line.met:
            raise ValueError(f"{history.name}, line {index}: says met={line.met}, its numbers say {meets}")
        lines.append(line)
    return lines


def machine(gpu: str | None = None) -> Machine:
    model = platform.processor() or platform.machine()
    for row in Path("/proc/cpuinfo").read_text().splitlines():
        if row.startswith("model name"):
            model = row.partition(":")[2].strip()
            break
    return Machine(model, len(os.sched_getaffinity(0)), platform.python_version(), gpu)


def command() -> str:
    """As this run was started, but for where its figures are kept."""
    words = list(sys.argv)
    words[0] = str(Path(words[0]).resolve().relative_to(ROOT))
    if "--history" in words:
        at = words.index("--history")
        del words[at : at + 2]
    return shlex.join(["python", *words])


def _commit() -> str | None:
    command: Sequence[str] = ("git", "-C", str(ROOT), "describe", "--always", "--dirty", "--exclude=*")
    try:
        found = subprocess.run(command, capture_output=True, text=True, check=False)
    except FileNotFoundError:  # a machine without git
        return None
    return found.stdout.strip() or None


class _Processors:
    """What this machine's processors did since now, and how much of it was us and the children that have ended."""

    def __init__(self) -> None:
        self._wall, self._busy, self._ours = time.monotonic(), _busy_seconds(), _our_seconds()

    def others(self) -> float:
        busy = _busy_seconds() - self._busy - (_our_seconds() - self._ours)
        return max(busy, 0.0) / max(time.monotonic() - self._wall, 1e-9)


def _busy_seconds() -> float:
    user, nice, system, _idle, _wait, irq, softirq, *_ = map(
        int, Path("/proc/stat").read_text().split("\n")[0].split()[1:]
    )
    return (user + nice + system + irq + softirq) / os.sysconf("SC_CLK_TCK")


def _our_seconds() -> float:
    used = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(one.ru_utime + one.ru_stime for one in used)
