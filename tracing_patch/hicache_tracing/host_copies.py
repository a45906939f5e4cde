"""Where the host copy of each tree node lies: slots that need not be asked for, or asked for again, when it is evicted.

To ask costs an engine function and several of torch, whose code a forward pass has pushed out of the processor's
caches by then. What is remembered holds as long as the node is as large as it was: trees number their nodes and never
give a number twice, a split leaves the old number to a smaller node, and a copy made anew is a backup anew. Storage
alone fills a node without one: while it is attached the engine is asked. When it comes or goes, when the tree is reset
and when a seam has failed, everything is forgotten. Where one of these is not told, nothing is remembered.
"""

from __future__ import annotations

from hicache_tracing.runs import Runs

MAX_NODES = 2048
MAX_PACKED = 1 << 19  # bytes of their runs, eight for each piece that a copy lies in


class HostCopies:
    def __init__(self) -> None:
        self.told = True  # whether we are told of all that moves a copy
        self._of: dict[int, tuple[int, Runs]] = {}
        self._packed = 0  # bytes of runs remembered since it was empty, those of older copies of a node, too

    def remember(self, node: int, tokens: int, runs: Runs) -> None:
        """A backup of this many tokens was accepted, or the engine was asked."""
        if not self.told:
            return
        if not runs[1] or node < 0:  # a negative one is nobody's
            self._of.pop(node, None)
            return
        packed = len(runs[2])
        if len(self._of) >= MAX_NODES or self._packed + packed > MAX_PACKED:
            self.forget()
        self._packed += packed
        self._of[node] = tokens, runs

    def of(self, node: int, tokens: int) -> Runs | None:
        """Of a node of this many tokens; None: not known here."""
        known = self._of.get(node)
        return known[1] if known is not None and known[0] == tokens else None

    def forget(self) -> None:
        self._of.clear()
        self._packed = 0
