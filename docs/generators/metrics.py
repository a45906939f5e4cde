"""The page of metrics, from the families in ``names.py``."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import groupby

from hicache_exporter.core.engine_families import FIRST, ROWS, Row
from hicache_exporter.names import FAMILIES, Family

from .markdown import cell, code, codes, page, table

SOURCES = {
    "recorder": "From the flight recorder",
    "proof": "Verdicts",
    "engine": "The engine's own metrics, under stable names",
    "gpu": "GPU and bus",
    "host": "Host memory",
    "sidecar": "The sidecar itself",
}
INTRODUCTION = """
Served by the sidecar at `/metrics`, as text and as OpenMetrics (with exemplars). Units are base units; counters end
in `_total`, histograms in `_bucket`, `_sum` and `_count`.

Every family carries the label `engine` (host:port of the server) unless it describes the sidecar or the machine.
Token families are logical: one rank speaks for a tensor-parallel group, data-parallel replicas add up. Byte families
add up over ranks. Families with the label `rank` keep each rank apart. A series is rebuilt at every scrape: when its
source is gone, it is gone in the same answer. Known tiers start at 0.
"""


ENGINE = """
## Where the engine's families come from

Which metric of SGLang each of them takes over, from which release on, and what has to be switched on. Of several
metrics for one family the first that the engine has is taken. *Ranks*: where every rank *repeats* the same logical
tokens, they are counted once; where each has its *share*, shares are added up. What a release with these flags should
have and has not is told by `hicache_engine_family_missing`.
"""

UNCOUNTED = """
## Trees that do not count

In these releases the tree does the work and does not count it. The engine's family is then missing, with the release
that brings it in `hicache_engine_family_missing`, and never 0. Which tree an engine has is told by its own text, by its
flight recorder where there is one, or by what its gauges show. The recorder counts in all of them
(`hicache_load_back_loaded_tokens_total`, `hicache_transfer_tokens_total`, `hicache_evicted_tokens_total`).
"""


def rendered() -> str:
    parts = (INTRODUCTION, *_sections(), ENGINE, _engine(), UNCOUNTED, _uncounted())
    return page("Metrics", *parts, source="exporter/hicache_exporter/names.py and core/engine_families.py")


def _engine() -> str:
    head = ("family", "labels", "SGLang's metric", "from", "ranks", "needs")
    return table(head, [_engine_line(row) for row in ROWS])


def _uncounted() -> str:
    gaps = [(row.family, tree, release) for row in ROWS for tree, release in row.uncounted_before.items()]
    lines = [
        (code(family.series), tree if " " in tree else code(tree), "before " + ".".join(map(str, release)))
        for family, tree, release in gaps
    ]
    return table(("family", "tree", "not counted"), lines)


def _engine_line(row: Row) -> tuple[str, ...]:
    labels = [f'{label}="{value}"' for label, value in row.labels.items()]
    if row.split is not None:
        labels.append(row.split.ours)
    since = "0.5.9 or older" if row.since == FIRST else ".".join(map(str, row.since))
    needs = row.needs.value
    return (
        code(row.family.series),
        codes(labels),
        code(f"sglang:{row.engine}"),
        since,
        row.ranks.name.lower(),
        code(needs) if needs.startswith("--") else needs,
    )


def _sections() -> Iterable[str]:
    order = list(SOURCES)
    families = sorted(FAMILIES.values(), key=lambda family: order.index(family.source))
    for source, found in groupby(families, key=lambda family: family.source):
        lines = table(("name", "type", "unit", "labels", "meaning"), map(_line, found))
        yield f"## {SOURCES[source]}\n\n{lines}"


def _line(family: Family) -> list[str]:
    name = family.name + "_info" if family.type == "info" else family.series
    return [code(name), family.type, family.unit, codes(family.labels), cell(family.help)]
