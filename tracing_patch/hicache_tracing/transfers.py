"""What is under way between device and host, in one direction."""

from __future__ import annotations

from typing import Any

from hicache_tracing.guard import Gate
from hicache_tracing.records import Direction


class Transfers:
    """The operations of one direction: queued, then merged into a transfer, then seen finished."""

    __slots__ = ("direction", "end", "open", "operations", "queued", "start", "told")

    def __init__(self, direction: Direction) -> None:
        self.direction = direction
        self.queued: list[tuple[int, int, int]] = []  # (node id, operation id, tokens)
        self.open: list[tuple[int, Any, int, int]] = []  # (transfer id, the engine's ack, tokens, bytes)
        self.operations = 0
        self.told = False  # whether we are told what is queued
        self.start = Gate()  # of the function that merges what is queued
        self.end = Gate()  # of the function that polls for what is open
