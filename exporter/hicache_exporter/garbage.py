"""When Python looks for garbage in cycles, in a process that keeps a bounded history of plain tuples."""

from __future__ import annotations

import gc

YOUNG = 10_000
"""Objects between two looks at the youngest; Python's 700 would mean two looks a read of the ring."""
LOOKS = 20
"""After so many at the younger ones follows one at the older."""
PATIENCE = 10 * YOUNG
"""A look in the middle of a scrape would find all that it makes alive: only if ``look`` is not called for so long."""


def settle() -> None:
    """Call once everything is imported: it stays, and no look through it will ever find anything.

    A ledger makes no cycles; what does (tasks, exceptions) is rare. Looking less often saves a fifth of its time.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(PATIENCE, LOOKS, LOOKS)


def look() -> None:
    """Look if it is time to: it takes milliseconds, so call it where nobody waits."""
    young, middle, old = gc.get_count()
    if young > YOUNG:
        gc.collect(2 if old > LOOKS else 1 if middle > LOOKS else 0)
