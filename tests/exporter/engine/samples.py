"""Recorded answers of real engines, and what the same numbers look like with other ranks."""

from __future__ import annotations

import json
import re
from pathlib import Path
from types import SimpleNamespace

from hicache_exporter.core import engine_text
from hicache_exporter.core.engine_families import WANTED
from hicache_exporter.core.engine_info import EngineInfo, read_server_info
from hicache_exporter.core.engine_reading import EngineReading
from hicache_exporter.core.engine_report import EngineTracker
from hicache_exporter.core.engine_view import view

CAPTURES = Path(__file__).parent / "captures"
RECORDED = sorted((path.stem for path in CAPTURES.glob("*.txt")), key=lambda n: [int(x) for x in re.findall(r"\d+", n)])
LATEST = "0.5.23-cpu-l3"
PLANTED = ("planted-api-key", "planted-admin-key")
ENGINE = "127.0.0.1:30000"


def metrics_of(name: str) -> str:
    return (CAPTURES / f"{name}.txt").read_text(encoding="utf-8")


def info_body(name: str, **changes: object) -> bytes:
    return json.dumps(json.loads((CAPTURES / f"{name}.json").read_text()) | changes).encode()


def info_of(name: str, **changes: object) -> EngineInfo:
    return read_server_info(info_body(name, **changes))


def read(text: str) -> engine_text.EngineText:
    return engine_text.read(text.encode(), WANTED)


def reading(text: str, info: EngineInfo | None) -> EngineReading:
    return EngineReading(ENGINE, 0.01, None, read(text), info)


def report(text: str, info: EngineInfo | None):
    return EngineTracker().take(reading(text, info))


class Numbers:
    """What comes out of one answer: ``numbers("hicache_engine_cached_tokens", tier="host")``."""

    def __init__(self, text: str, info: EngineInfo | None) -> None:
        self.view = view(read(text), info)
        self.missing = self.view.missing

    def __call__(self, family: str, **labels: str) -> float | None:
        values = self.all(family, **labels)
        assert len(values) <= 1, f"{len(values)} series"
        return values[0] if values else None

    def all(self, family: str, **labels: str) -> list[float]:
        return [v.values[0] for v in self.of(family) if dict(zip(v.family.labels, v.labels, strict=True)) == labels]

    def of(self, family: str):
        return [value for value in self.view.values if value.family.name == family]

    def everything(self) -> dict[tuple[str, tuple[str, ...]], tuple[float, ...]]:
        return {(v.family.name, v.labels): v.values for v in self.view.values}


TREE = re.compile(r"^(sglang:\w+)\{(cache_type=[^}]*)\} (\S+)$")
RANKS = re.compile(r',?(?:tp|pp|dp)_rank="\d+"')
STORAGE = re.compile(r'^(sglang:\w+\{.*storage_backend=.*tp_rank=")0("\} \S+)$')


def _tree_lines(text: str, change) -> str:
    lines = []
    for line in text.split("\n"):
        found = TREE.match(line)
        lines += change(SimpleNamespace(name=found[1], labels=found[2], value=float(found[3]))) if found else [line]
    return "\n".join(lines)


def _share(name: str, value: float, ranks: int) -> float:
    """What one of the ranks counts, when all of them together move what the one of the recording did."""
    return value / ranks if "_bytes_" in name else value


def summed_over_ranks(text: str, ranks: int) -> str:
    """The tree's counters as engines up to 0.5.20 write them: no rank labels, all ranks added up."""

    def change(line):
        value = _share(line.name, line.value, ranks) * ranks
        return [f"{line.name}{{{RANKS.sub('', line.labels)}}} {value}"]

    return _ranks_of_storage(_tree_lines(text, change), ranks)


def labelled_by_rank(text: str, ranks: int) -> str:
    """The tree's counters as 0.5.21 and later write them: each rank on its own."""

    def change(line):
        value = _share(line.name, line.value, ranks)
        return [
            f'{line.name}{{{RANKS.sub("", line.labels)},dp_rank="0",pp_rank="0",tp_rank="{rank}"}} {value}'
            for rank in range(ranks)
        ]

    return _ranks_of_storage(_tree_lines(text, change), ranks)


def _ranks_of_storage(text: str, ranks: int) -> str:
    lines = []
    for line in text.split("\n"):
        found = STORAGE.match(line)
        lines += [f"{found[1]}{rank}{found[2]}" for rank in range(ranks)] if found else [line]
    return "\n".join(lines)
