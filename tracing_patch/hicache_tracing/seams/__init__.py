"""All seams: one engine function, or one family of them, a file."""

from __future__ import annotations

from hicache_tracing.seams import (
    admission,
    evict,
    lifecycle,
    load_back,
    lookup,
    memory,
    operations,
    reset,
    scope,
    storage,
    tokens,
    transfers,
    weights,
)
from hicache_tracing.seams.base import Target

ALL: tuple[Target, ...] = (
    *lifecycle.TARGETS,
    *lookup.TARGETS,
    *admission.TARGETS,
    *load_back.TARGETS,
    *operations.TARGETS,
    *transfers.TARGETS,
    *evict.TARGETS,
    *reset.TARGETS,
    *scope.TARGETS,
    *storage.TARGETS,
    *tokens.TARGETS,
    *memory.TARGETS,
    *weights.TARGETS,
)
