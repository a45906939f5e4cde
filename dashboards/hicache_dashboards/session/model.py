"""A session as data: frames of exposition text, and what to serve at any moment of an endless replay.

Gauges repeat from round to round. Counters go on from where the last round ended, as those of a living engine would;
a reset every few minutes would show as a restart.
"""

from __future__ import annotations

import base64
import json
import lzma
import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

CUMULATIVE = ("_total", "_bucket", "_count", "_sum")
_NUMBER = r"[+-]?(?:\d+\.?\d*(?:[eE][+-]?\d+)?|\.\d+(?:[eE][+-]?\d+)?|Inf|NaN)"
_SAMPLE = re.compile(rf'^([a-zA-Z_:][\w:]*)(\{{(?:[^"}}]|"(?:\\.|[^"\\])*")*\}})? ({_NUMBER})(?!\S)', re.ASCII)
SHORTEST, LONGEST = 0.001, 1e9
"""Seconds of a round."""
LARGEST = 512 * 1024 * 1024
"""Bytes of a file once it is unpacked: zeros shrink to a thousandth and less."""
TOO_LARGE = f"it unpacks to more than {LARGEST >> 20} MiB"


@dataclass(frozen=True, slots=True)
class Frame:
    at: float
    """Seconds since the session began."""
    text: str
    """OpenMetrics."""


@dataclass(frozen=True, slots=True)
class Recording:
    """What a file holds: lines of frames, and since 0.2 before them the flight recorders of the same minutes."""

    frames: list[Frame]
    rings: tuple[bytes, ...] = ()
    """Whole ring files, one a rank."""
    begin_ns: int | None = None
    """When the session began on the clock of the rings, CLOCK_MONOTONIC of the engine's machine."""


class Session:
    """At least two frames, in order of time."""

    def __init__(self, frames: list[Frame]) -> None:
        """Raises ValueError for times that do not go forwards."""
        if not all(earlier.at <= later.at for earlier, later in pairwise(frames)):  # NaN is neither
            raise ValueError("its frames are not in order of time")
        self._frames = frames
        self._ends = dict(samples(frames[-1].text))
        self._starts = dict(samples(frames[0].text))
        spacing = (frames[-1].at - frames[0].at) / (len(frames) - 1)
        self.seconds = frames[-1].at - frames[0].at + spacing
        """Length of one round."""
        if not SHORTEST <= self.seconds <= LONGEST:
            raise ValueError(f"it lasts {self.seconds:g} s")

    def at(self, seconds: float) -> str:
        """What is served this long after the replay began."""
        rounds, into = divmod(seconds, self.seconds)
        index = bisect_right([frame.at for frame in self._frames], into + self._frames[0].at) - 1
        text = self._frames[max(index, 0)].text
        return "".join(self._line(line, int(rounds)) for line in text.splitlines(keepends=True))

    def _line(self, line: str, rounds: int) -> str:
        match = _SAMPLE.match(line)
        if match is None:
            return line
        name, labels, value = match[1], match[2] or "", match[3]
        if rounds and name.endswith(CUMULATIVE):
            series = name + labels
            grown = self._ends.get(series, 0.0) - self._starts.get(series, 0.0)
            value = repr(float(value) + rounds * grown)
        return f"{name}{labels} {value}\n"  # without its exemplar: the trace that it names was not recorded


def load(path: Path) -> Session:
    return Session(read(path).frames)


def read(path: Path) -> Recording:
    """Raises what lzma, json and a wrong shape of it raise for a file that is no session (replay.source.UNREADABLE)."""
    frames, rings, begin_ns = list[Frame](), list[bytes](), None
    with lzma.open(path) as packed:
        for line in map(json.loads, _lines(packed)):
            if isinstance(line, dict):
                rings.append(base64.b64decode(line["ring"]))
                begin_ns = int(line["begin_ns"])
            else:
                at, text = line
                str(text).encode()  # raises for half a character, which nobody could be sent
                frames.append(Frame(float(at), str(text)))
    return Recording(frames, tuple(rings), begin_ns)


def _lines(packed: lzma.LZMAFile) -> Iterator[bytes]:
    left = LARGEST
    while line := packed.readline(left + 1):
        left -= len(line)
        if left < 0:
            raise ValueError(TOO_LARGE)
        yield line


def save(path: Path, frames: Iterable[Frame], rings: Iterable[bytes] = (), begin_ns: int = 0) -> None:
    with lzma.open(path, "wt", encoding="utf-8", preset=9) as lines:
        for ring in rings:
            lines.write(json.dumps({"ring": base64.b64encode(ring).decode(), "begin_ns": begin_ns}) + "\n")
        for frame in frames:
            lines.write(json.dumps([frame.at, frame.text]) + "\n")


def samples(text: str) -> Iterable[tuple[str, float]]:
    """Series, as it is written with its labels, and value."""
    for line in text.splitlines():
        if match := _SAMPLE.match(line):
            yield match[1] + (match[2] or ""), float(match[3])
