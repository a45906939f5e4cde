"""What this engine's own cache will tell: which of the patched functions its objects run through, and what is missing.

A release may bring several cache trees, and a subclass may override what we patched on its base: the seam is attached
then, and nothing will ever come from it.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from hicache_tracing.cache_classes import CONTROLLERS, RADIX, TREES
from hicache_tracing.guard import Seam
from hicache_tracing.records import SeamState

CACHE_CLASSES = frozenset(name for _, name in (*TREES, *CONTROLLERS, RADIX))

PROOF = (
    ("add_one_req",),
    ("prepare_for_extend",),
    ("init_load_back",),
    ("load",),
    ("write",),
    ("start_loading",),
    ("loading_check",),
)
"""Engine functions whose seams tell the facts of a proof; one of each line is needed."""
VOIDING = (
    ("start_writing",),
    ("writing_check",),
    ("loading_check",),
    ("reset",),
    ("_evict_device_leaf", "_detach_backuped", "_evict_backuped"),
    ("_handle_prefetch_result", "check_prefetch_progress"),
)
"""Engine functions whose seams tell the content witness that a signature or a comparison no longer holds; one of each
line is needed, the last only where storage can be attached. Were one of them missed, good rows would be called damaged.
"""
STORAGE = VOIDING[-1]
ALSO_VOIDING = ("_demote", "_evict_to_host", "_evict_regular", "_drop_subtree_no_host")
"""The same, where an engine has them."""
COPIES = ("write", "reset", "detach_storage_backend")
"""Engine functions whose seams tell that the host copy of a node, by its number, may lie elsewhere by now; all that an
engine has are needed. Were one of them missed, an eviction would name slots that hold something else.
"""
VOIDING_FUNCTIONS = frozenset((*ALSO_VOIDING, *(function for line in VOIDING for function in line)))


def owner_of(seam: str) -> str:
    return seam.rpartition(".")[0]


def function_of(seam: str) -> str:
    return seam.rpartition(".")[2]


def in_use(seams: Iterable[Seam], parts: tuple[Any, ...]) -> list[str]:
    """Names of the attached seams that will tell something. ``parts``: the engine's tree and cache controller."""
    return [
        seam.name
        for seam in seams
        if seam.state is SeamState.ATTACHED and (owner_of(seam.name) not in CACHE_CLASSES or _runs(seam, parts))
    ]


def untold(seams: Iterable[Seam], off: Iterable[str], parts: tuple[Any, ...]) -> str:
    """The first function of VOIDING that nobody tells of, "" if all is told. ``off``: seams that were switched off."""
    seams = list(seams)
    classes = {kind.__name__ for part in parts for kind in type(part).__mro__}
    dark = [seam.name for seam in seams if seam.state in (SeamState.UNRECOGNISED, SeamState.TRIPPED)]
    for name in sorted({*dark, *off}):
        if owner_of(name) in classes and function_of(name) in VOIDING_FUNCTIONS:
            return name
    return next(iter(lacking(VOIDING, seams, parts)), "")


def lacking(needed: Iterable[tuple[str, ...]], seams: Iterable[Seam], parts: tuple[Any, ...]) -> list[str]:
    """What is needed, and nobody tells in this engine: each line of alternatives as text."""
    told = {function_of(name) for name in in_use(seams, parts)}
    lines = [line for line in needed if told.isdisjoint(line)]
    return [" or ".join(line) for line in lines if line is not STORAGE or _may_store(parts)]


def all_told(functions: Iterable[str], seams: Iterable[Seam], parts: tuple[Any, ...]) -> bool:
    """Whether each of these functions that the engine's tree or controller has is told of."""
    told = {function_of(name) for name in in_use(seams, parts)}
    return all(function in told or not any(hasattr(part, function) for part in parts) for function in functions)


def _runs(seam: Seam, parts: tuple[Any, ...]) -> bool:
    """Whether one of the objects finds this very class's function under the name, and not a subclass's."""
    function = function_of(seam.name)
    definers = (next((kind for kind in type(part).__mro__ if function in vars(kind)), None) for part in parts)
    return any(definer is not None and definer is seam.owner for definer in definers)


def _may_store(parts: tuple[Any, ...]) -> bool:
    return any(getattr(part, "enable_storage", False) or hasattr(part, "attach_storage_backend") for part in parts)
