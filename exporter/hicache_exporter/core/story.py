"""What the recorder told about one request on one rank, fact by fact."""

from __future__ import annotations

from typing import NamedTuple

from hicache_exporter.core.decoding import SEQ, T_NS, Row
from hicache_exporter.core.operations import Operation

MAX_EVENTS = 256


class TraceContext(NamedTuple):
    """The span that SGLang's own tracing made for the request."""

    trace_id: int
    span_id: int
    sampled: bool


class Story:
    """Rows as they came, ``None`` where there was none. Nothing here is judged or inferred."""

    __slots__ = (
        "admit",
        "admitted_ns",
        "closed",
        "events",
        "finish",
        "first_seq",
        "first_token_ns",
        "last_ns",
        "last_seq",
        "load_back",
        "loaded",
        "loads",
        "lookup",
        "lookups",
        "promised",
        "rid",
        "sampled",
        "serving",
        "settled",
        "trace",
        "ttft_seconds",
    )

    def __init__(self, rid: bytes, seq: int) -> None:
        self.rid = rid
        self.first_seq = self.last_seq = seq
        self.last_ns = 0
        self.lookups = 0
        self.lookup: Row | None = None
        self.promised = 0
        """Host tokens of the largest promise that a lookup made it."""
        self.load_back: Row | None = None
        self.loaded: int | None = None
        """Host tokens that the tree said it loaded for it, over all attempts; None: it was never asked."""
        self.loads: list[Operation] = []
        self.admit: Row | None = None
        self.admitted_ns: int | None = None
        self.serving = "none"
        """The tier that the engine says served the prefix: one of names.SERVING; set at admission."""
        self.first_token_ns: int | None = None
        self.ttft_seconds: float | None = None
        """From the scheduler receiving it to its first token; None where the engine kept no such time."""
        self.finish: Row | None = None
        self.trace: TraceContext | None = None
        self.closed = False
        """Nothing more will be told: its process ended, or the ledger forgot it."""
        self.settled = False
        """Its verdict is final and has been counted."""
        self.sampled: bool | None = None
        """Whether spans of it are exported; None: not decided yet."""
        self.events: list[Row] = []

    def note(self, row: Row) -> None:
        """Put a row on the request's timeline, which is bounded."""
        self.last_seq = row[SEQ]
        self.last_ns = row[T_NS]
        if len(self.events) < MAX_EVENTS:
            self.events.append(row)

    def told(self, *, content_expected: bool) -> bool:
        """Nothing that this rank still has to tell can change how the request was served."""
        if self.admit is None or (self.first_token_ns is None and self.finish is None):
            return False
        for load in self.loads:
            move = load.move
            if move is None or move.finished is None:
                return False
            if content_expected and move.finished and move.content is None:
                return False
        return True
