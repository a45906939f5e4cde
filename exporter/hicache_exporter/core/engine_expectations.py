"""What an engine of this version, with these flags, should publish; and what would bring what is missing."""

from __future__ import annotations

from collections.abc import Sequence

from hicache_exporter.core.engine_families import FIRST, ROWS, Needs, Row
from hicache_exporter.core.engine_info import EngineInfo, Version
from hicache_exporter.core.engine_text import EngineText

NO_INFO = "/server_info"
FIRST_USE = "first use"
HIRADIX = "HiRadixCache"
TREE_BEARER = "evicted_tokens_total"
"""Its label ``cache_type`` names the tree's class; every read of L2 comes after an eviction."""


class Expectations:
    def __init__(self, text: EngineText, info: EngineInfo | None) -> None:
        self._text = text
        self._release = info.release if info else None
        self._hicache = info.enable_hierarchical_cache if info else None
        if self._hicache is None and self._any_present(Needs.HICACHE):
            self._hicache = True
        configured = bool(info and info.hicache_storage_backend)
        self.storage = configured or self._any_present(Needs.STORAGE)
        """L3 is there: configured, or attached at run time and already counting."""
        trees = {sample.labels.get("cache_type", HIRADIX) for sample in text.of(TREE_BEARER)}
        self._other_tree = bool(trees) and HIRADIX not in trees

    def present(self, row: Row) -> bool:
        return any(self._text.of(name) for name in row.sample_names)

    def best(self, rows: Sequence[Row]) -> Row:
        """Of alternatives none of which is there: the first that this release could have, else the oldest."""
        return next((row for row in rows if self._released(row)), rows[-1])

    def zero(self, row: Row) -> bool:
        """A counter of this row that is not there has certainly counted nothing."""
        if row.needs is Needs.METRICS and row.since == FIRST:
            return True
        if self._counted_from(row) is not None:
            return False
        return self.present(row) or bool(self._released(row) and self._switched_on(row))

    def flag(self, row: Row) -> str | None:
        """What would bring this absent row; None: nothing is missing."""
        if row.needs is Needs.HYBRID or (row.needs is Needs.STORAGE and not self.storage):
            return None
        if self._release is not None and not self._released(row):
            return _at_least(row.since)
        if row.needs is Needs.HICACHE and self._hicache is False:
            return str(row.needs.value)
        counted_from = self._counted_from(row)
        if counted_from is not None:
            return f"{_at_least(counted_from)} or {HIRADIX}"
        if row.family.type == "counter" and self.zero(row):
            return None
        known = self._released(row) and self._switched_on(row)
        return FIRST_USE if known or (row.needs is Needs.METRICS and row.since == FIRST) else NO_INFO

    def _released(self, row: Row) -> bool:
        return self._release is not None and self._release >= row.since

    def _counted_from(self, row: Row) -> Version | None:
        """The release from which on the tree of this engine counts it; None: it does already."""
        if not self._other_tree or row.hiradix_before is None or self._release is None or self.present(row):
            return None
        return row.hiradix_before if self._release < row.hiradix_before else None

    def _switched_on(self, row: Row) -> bool | None:
        if row.needs is Needs.HICACHE:
            return self._hicache
        if row.needs is Needs.STORAGE:
            return self.storage
        return row.needs is Needs.METRICS

    def _any_present(self, needs: Needs) -> bool:
        return any(self.present(row) for row in ROWS if row.needs is needs)


def _at_least(release: Version) -> str:
    return "sglang>=" + ".".join(map(str, release))
