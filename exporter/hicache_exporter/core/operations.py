"""Queued copies between device and host, and the transfers that they were merged into."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from hicache_tracing.records import Direction

if TYPE_CHECKING:
    from hicache_exporter.core.residency import SlotsRead
    from hicache_exporter.core.story import Story


class ContentCheck(NamedTuple):
    """What the content witness found in one transfer."""

    checked: int
    mismatched: int
    unseen: int
    mode: int
    layers: int


class Operation:
    """One queued copy of one node: a backup (device to host) or a load (host to device)."""

    __slots__ = (
        "direction",
        "identifier",
        "live_slots",
        "move",
        "node",
        "read",
        "rid",
        "seq",
        "story",
        "t_ns",
        "tokens",
    )

    def __init__(
        self, identifier: int, direction: Direction, node: int, tokens: int, rid: bytes, seq: int, t_ns: int
    ) -> None:
        self.identifier = identifier
        self.direction = direction
        self.node = node
        self.tokens = tokens
        self.rid = rid
        self.seq = seq
        self.t_ns = t_ns
        self.move: Move | None = None
        self.story: Story | None = None
        """The request in whose scope it was queued, until a transfer carries it."""
        self.live_slots = 0
        """Of a backup: host slots that still hold what it wrote."""
        self.read: SlotsRead | None = None
        """Of a load: what was known about the slots when it was queued."""

    @property
    def finished(self) -> bool:
        return self.move is not None and self.move.finished is True


class Move:
    """One transfer: what the engine submitted to the device in one go, for one or more queued operations."""

    __slots__ = (
        "bytes",
        "carried_tokens",
        "content",
        "device_ns",
        "direction",
        "done_ns",
        "finished",
        "identifier",
        "operations",
        "queued_ns",
        "requests",
        "seq",
        "spanned",
        "stories",
        "submitted_ns",
        "tokens",
    )

    def __init__(self, identifier: int, direction: int, tokens: int, size: int, seq: int, submitted_ns: int) -> None:
        self.identifier = identifier
        self.direction = direction
        self.tokens = tokens  # negative where the engine does not say
        self.bytes = size
        self.seq = seq
        self.submitted_ns = submitted_ns
        self.queued_ns = submitted_ns  # of the first of its operations: before that none of its bytes can have moved
        self.carried_tokens = 0
        self.operations: list[Operation] = []
        self.requests = 0
        self.stories: dict[Story, None] = {}
        """The requests that it serves, each once, in the order in which they were queued; ``requests`` of them."""
        self.finished: bool | None = None
        """None while it is open; False if a reset dropped it."""
        self.done_ns: int | None = None
        """When the engine saw it finished, or dropped it."""
        self.device_ns: int | None = None
        self.content: ContentCheck | None = None
        self.spanned = False
        """A span of it was made."""

    def carry(self, operation: Operation) -> None:
        operation.move = self
        self.operations.append(operation)
        self.carried_tokens += operation.tokens
        self.queued_ns = min(self.queued_ns, operation.t_ns)
        story, operation.story = operation.story, None
        if story is not None:
            self.stories[story] = None
            self.requests = len(self.stories)

    def release(self) -> None:
        """Let go of whom it served; the figures stay. Else requests would keep each other in memory for ever: one knows
        the backups that it read from, a backup's transfer the request that made it, and that one its own.
        """
        self.operations.clear()
        self.stories.clear()

    def volume(self, bytes_per_token: int | None) -> tuple[int, int | None]:
        """(tokens, bytes); where the engine gives no figures, those of the operations merged into it."""
        tokens = self.tokens if self.tokens >= 0 else self.carried_tokens
        if self.bytes >= 0:
            return tokens, self.bytes
        return tokens, None if bytes_per_token is None else tokens * bytes_per_token
