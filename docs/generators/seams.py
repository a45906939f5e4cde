"""The page of the patched engine functions, release by release, from what ``make matrix`` noted of each real run."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from hicache_tracing.seams import ALL

from . import compatibility
from .compatibility import Row
from .markdown import code, page, table

ROWS = Path(__file__).parents[1] / "compatibility"

INTRODUCTION = """
What became of each seam in one run of every release: a prompt computed, read from L1, evicted, read from L2 (the
default cache tree, no storage).

- **fired**: attached, and the engine called it
- attached: in place, and not called in that run: of another cache tree, of storage, of another way to run
- nothing: this release has no such function, or does not load its module

A function that is there with other parameters than those known is left alone and shown as `unrecognised` on
`/metrics`; in these runs there is none.
"""


def rendered() -> str:
    rows = compatibility.read(ROWS)
    parts = [
        _section(module, [target.seam for target in ALL if target.module == module], rows)
        for module in dict.fromkeys(target.module for target in ALL)
    ]
    return page("Seams", INTRODUCTION, *filter(None, parts), source="tracing_patch/hicache_tracing/seams")


def _section(module: str, seams: Sequence[str], rows: Sequence[Row]) -> str:
    """The table of one engine module; "" if no release has anything of it."""
    lines = [[code(seam), *(_state(row, seam) for row in rows)] for seam in seams]
    lines = [line for line in lines if any(line[1:])]
    if not lines:
        return ""
    return f"## {code(module)}\n\n" + table(("function", *(row["release"] for row in rows)), lines)


def _state(row: Row, seam: str) -> str:
    if seam in row["fired"]:
        return "**fired**"
    return "attached" if seam in row["attached"] else ""
