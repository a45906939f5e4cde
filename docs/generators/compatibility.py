"""The table of SGLang releases, from what ``make matrix`` noted of each real run."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from hicache_proof.demo.releases import RELEASES
from hicache_tracing.records import Kind

from .markdown import table

Row = Mapping[str, Any]

RECORDED = {
    "lookup": (Kind.LOOKUP,),
    "admission": (Kind.ADMIT,),
    "load-back": (Kind.LOAD_BACK,),
    "transfers": (Kind.TRANSFER, Kind.TRANSFER_DONE),
    "evictions": (Kind.EVICT,),
}
HEAD = ("SGLang", "cache tree", "attached by", *RECORDED, "content", "device-clock time of")


def read(folder: Path) -> list[Row]:
    """The rows of a folder, oldest release first."""
    rows: list[Row] = [json.loads(path.read_text("utf-8")) for path in folder.glob("*.json")]
    return sorted(rows, key=lambda row: [int(part) for part in row["release"].split(".")])


def rendered(rows: Iterable[Row]) -> str:
    return table(HEAD, [_line(row) for row in rows])


def _line(row: Row) -> list[str]:
    kinds = set(row["kinds"])
    recorded = ["yes" if kinds.issuperset(needed) else "no" for needed in RECORDED.values()]
    content = row["content"] if Kind.CONTENT in kinds else "no"
    timed = " and ".join(sorted(row["timed"], reverse=True)) or "none"
    return [row["release"], _tree(row), _attached_by(row["release"]), *recorded, content, timed]


def _tree(row: Row) -> str:
    if row["core"] is None:
        return str(row["tree"])
    return f"{row['tree']}, {'Rust' if row['core'].startswith('Rust') else 'Python'} core"


def _attached_by(release: str) -> str:
    return "plugin" if RELEASES[release].plugin_loader else "`launch`"
