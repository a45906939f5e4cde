"""How often Python looks for garbage in cycles, in a process that keeps a bounded history of plain tuples."""

from __future__ import annotations

import gc

YOUNG = 20_000
"""Objects between two looks at the youngest; Python's 700 would mean a look and more at each read of the ring."""


def settle() -> None:
    """Call once everything is imported: it stays, and no look through it will ever find anything.

    A ledger makes no cycles; what does (tasks, exceptions) is rare. Looking less often saves a fifth of its time.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(YOUNG, 20, 20)
