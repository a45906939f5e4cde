"""Which class the engine's cache is of. Not all of them count what they do, and not in every release.

The engine's text names the class only beside what the tree has counted, so that one which never counts has no name in
it and is known by other marks. The flight recorder, where there is one, knows for certain.
"""

from __future__ import annotations

from hicache_exporter.core.engine_text import EngineText

HIRADIX = "HiRadixCache"
UNIFIED = "UnifiedRadixCache"
HIMAMBA = "HiMambaRadixCache"
MAMBA = "MambaRadixCache"
UNNAMED = "a tree without a name"
"""It has served L2 hits, so it has evicted and loaded back, and has counted neither."""

BEARERS = ("evicted_tokens_total", "load_back_tokens_total")
"""Their label ``cache_type`` is the class of the tree."""
MAMBA_MARKS = ("mamba_usage", "mamba_used_tokens", "mamba_evictable_tokens")
"""Every engine has these gauges; only the tree of a Mamba model ever moves them."""
CACHED = "cached_tokens_total"


def tree_of(text: EngineText, known: str | None = None) -> str | None:
    """Class of the tree; MAMBA stands for whichever a Mamba model gets. None: nothing tells.

    ``known``: from the flight recorder, or what this engine's earlier texts told: marks come and go.
    """
    named = {sample.labels.get("cache_type", HIRADIX) for name in BEARERS for sample in text.of(name)}
    if named:
        return HIRADIX if HIRADIX in named else min(named)
    if known is not None and known != UNNAMED:
        return known
    if any(sample.value > 0 for name in MAMBA_MARKS for sample in text.of(name)):
        return MAMBA
    return UNNAMED if known or _l2_has_served(text) else None


def _l2_has_served(text: EngineText) -> bool:
    return any(sample.labels.get("cache_source") == "host" and sample.value > 0 for sample in text.of(CACHED))
