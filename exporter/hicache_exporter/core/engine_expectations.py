"""What an engine of this version, with these flags, should publish; and what would bring what is missing."""

from __future__ import annotations

from collections.abc import Sequence

from hicache_exporter.core.engine_families import FIRST, ROWS, Needs, Row
from hicache_exporter.core.engine_info import EngineInfo, Version
from hicache_exporter.core.engine_text import EngineText
from hicache_exporter.core.engine_trees import HIMAMBA, HIRADIX, MAMBA, UNIFIED, UNNAMED, tree_of

NO_INFO = "/server_info"
FIRST_USE = "first use"


class Expectations:
    def __init__(self, text: EngineText, info: EngineInfo | None, tree: str | None = None) -> None:
        """``tree``: its class, where something beside this text has told it (see engine_trees)."""
        self._text = text
        self._release = info.release if info else None
        self._hicache = info.enable_hierarchical_cache if info else None
        if self._hicache is None and self._any_present(Needs.HICACHE):
            self._hicache = True
        configured = bool(info and info.hicache_storage_backend)
        self.storage = configured or self._any_present(Needs.STORAGE)
        """L3 is there: configured, or attached at run time and already counting."""
        self.tree = tree_of(text, tree)

    def present(self, row: Row) -> bool:
        return any(self._text.of(name) for name in row.sample_names)

    def best(self, rows: Sequence[Row]) -> Row:
        """Of alternatives none of which is there: the first that this release could have, else the oldest."""
        return next((row for row in rows if self._released(row)), rows[-1])

    def zero(self, row: Row) -> bool:
        """A counter of this row that is not there has certainly counted nothing."""
        if self._counted_from(row) is not None:
            return False
        if row.needs is Needs.METRICS and row.since == FIRST:
            return True
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
            return NO_INFO if self._release is None else self._at_least_or_other_tree(counted_from)
        if row.family.type == "counter" and self.zero(row):
            return None
        known = self._released(row) and self._switched_on(row)
        return FIRST_USE if known or (row.needs is Needs.METRICS and row.since == FIRST) else NO_INFO

    def _released(self, row: Row) -> bool:
        return self._release is not None and self._release >= row.since

    def _counted_from(self, row: Row) -> Version | None:
        """The release from which on the tree of this engine counts it; None: it does already."""
        tree = HIMAMBA if self.tree == MAMBA and self._hicache else self.tree
        release = row.uncounted_before.get(tree or "")
        if release is None or self.present(row):
            return None
        return release if self._release is None or self._release < release else None

    def _at_least_or_other_tree(self, release: Version) -> str:
        """A Mamba model has no choice of trees."""
        return _at_least(release) + (f" or {HIRADIX}" if self.tree in (UNIFIED, UNNAMED) else "")

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
