"""Requests that were admitted and have no first token yet: while there is none, no batch's result is looked at."""

from __future__ import annotations

from hicache_tracing.guard import Gate

MAX_DUE = 4096  # requests; if more are waiting, every batch is looked at from then on


class FirstTokens:
    def __init__(self) -> None:
        self.gate = Gate()  # of the function that processes a batch's result
        self._told = False  # whether we are told of admissions
        self._due: set[bytes | None] = set()  # None: others, whose tokens nobody will recognise

    def admitted(self, key: bytes) -> None:
        self._told = self.gate.open = True
        self._due.add(key if len(self._due) < MAX_DUE else None)

    def seen(self, key: bytes) -> None:
        """Its first token was seen, or its end."""
        self._due.discard(key)
        self.gate.open = bool(self._due) or not self._told

    def untold(self) -> None:
        """An admission may have been missed: look at everything until the next one."""
        self._told, self.gate.open = False, True
