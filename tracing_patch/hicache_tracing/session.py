"""What one scheduler process knows while it records: the open ring, the operations under way, whose turn it is.

Everything here is plain numbers and short strings, bounded, and touched by the scheduler's thread only. Of the
engine's own objects it keeps two kinds. The acknowledgement tuples (events and node ids, no tensors) of transfers that
are still open, until the engine drops them from its queue. And the tree and the controller of the last scheduler that
was identified, by which seams know whose call it is: they, and the KV pools with them, live as long as the process,
also where the scheduler that had them does not.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Any

from hicache_tracing import dialects, told
from hicache_tracing.config import Settings
from hicache_tracing.first_tokens import FirstTokens
from hicache_tracing.guard import Seam, say
from hicache_tracing.host_copies import HostCopies
from hicache_tracing.identity import identity_of
from hicache_tracing.load_scope import LoadScope
from hicache_tracing.recorder import Recorder
from hicache_tracing.records import ABSENT, PAIR, Direction, Kind, SeamState
from hicache_tracing.ring_file import RecorderError
from hicache_tracing.transfers import Transfers
from hicache_tracing.witness import ContentWitness, UnwitnessableError, make_witness

logger = logging.getLogger("hicache_witness")

Write = Callable[..., None]

TRANSFER = Kind.TRANSFER
TRANSFER_DONE = Kind.TRANSFER_DONE
RESET = Kind.RESET

MAX_RIDS = 1 << 18  # characters of request ids remembered: a client chooses their length
MAX_QUEUED = 4096  # operations of a direction; more wait only where the engine hides their transfer from us
MAX_PAIRS = 1000 * PAIR.size  # bytes of them in a record
MAX_OPEN = 1024  # transfers of a direction; more are open only where the engine hides their end


def _nowhere(*_: object, **__: object) -> None:
    """The recorder's ``write`` while there is no recorder."""


class Session:
    """One per process. Without a ring every write goes nowhere and the seams cost next to nothing."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.seams: list[Seam] = []
        self.recorder: Recorder | None = None
        self.write: Write = _nowhere
        self.controller: Any = None
        self.tree: Any = None
        self.page = 1  # host slots that are given out together
        self.rid = ""  # the request in whose scope the engine is working
        self.load_scope: LoadScope | None = None
        self.loads = Transfers(Direction.HOST_TO_DEVICE)
        self.backups = Transfers(Direction.DEVICE_TO_HOST)
        self.transfer_id = 0
        self.host_copies = HostCopies()
        self.first_tokens = FirstTokens()
        self.promised: dict[bytes, tuple[int, int, float]] = {}  # request -> what lookup told of it last
        self.witness: ContentWitness | None = None
        self._parted: ContentWitness | None = None
        """That of the scheduler before: its kernels may be under way until the next has waited for the device."""
        self.signing = True  # False: what voids a signature is not told any more, so none may be taken
        self.host_slots = self.new_seam("host_slots")
        """No function of the engine's: that it lets the host slots of an evicted node be read."""
        self.weight_updates = 0
        self._keys: dict[Any, bytes] = {}
        self._kept = 0  # characters in them

    # -- life ------------------------------------------------------------------------------------------------

    def open(self) -> None:
        """Open the ring; if there can be none, say why in one log line and stay silent for good."""
        if self.recorder is not None:
            return
        try:
            self.recorder = Recorder(self.settings.folder, self.settings.capacity)
        except Exception as reason:
            say("not recording: %s", reason if isinstance(reason, RecorderError) else repr(reason))
            self.silence()
            return
        self.write = self.recorder.write
        for seam in self.seams:
            self.seam_changed(seam)
            if seam.state is SeamState.UNRECOGNISED:
                self.left_alone(seam)

    def identify(self, scheduler: Any) -> None:
        """Write the identity of this process once its scheduler stands, and meet its cache controller."""
        if self.recorder is None:
            return
        tree = dialects.hicache_tree(scheduler)
        if self.tree is not None and tree is not self.tree:
            self._part()
        self.tree = tree
        self.controller = getattr(tree, "cache_controller", None)
        self.page = dialects.page_size(tree)
        self.host_copies.told = told.all_told(told.COPIES, self.seams, self._cache())
        content = self._witness_content()
        identity = identity_of(scheduler, self.tree, self.controller)
        identity["content_mode"] = content
        identity["seams"] = [seam.name for seam in self.seams]
        identity["in_use"] = told.in_use(self.seams, self._cache())
        self.recorder.identify(identity)
        if self.controller is not None and (lacking := told.lacking(told.PROOF, self.seams, self._cache())):
            say("nothing can be proven here, not recorded: %s", ", ".join(lacking))
        logger.info("hicache-witness: recording to %s", self.recorder.path)

    def _part(self) -> None:
        """From the tree so far, for another scheduler's: what is open and what is known is of nodes that it has not."""
        if self.witness is not None:
            self._parted, self.witness = self.witness, None
        self.reset()

    def _cache(self) -> tuple[Any, ...]:
        return tuple(part for part in (self.tree, self.controller) if part is not None)

    def _witness_content(self) -> str:
        """Make the content witness that was asked for. Returns its mode, or why there is none."""
        wanted = self.settings.content
        if wanted == "off" or self.controller is None:
            return "off"
        try:
            if untold := told.untold(self.seams, self.settings.seams_off, self._cache()):
                raise UnwitnessableError(f"{untold} is not recorded here")
            self.witness = make_witness(self.controller, wanted)
            self.loads.end.open = True  # its comparisons end in loading_check, too
        except Exception as reason:  # no memory for it, no compiler: the rest of the witnesses still count
            content = f"refused: {reason if isinstance(reason, UnwitnessableError) else repr(reason)}"
            content = content[:500]  # the header has little room
            say("no content witness, %s", content)
            return content
        return wanted

    def forked(self) -> None:
        """In the child: a ring that it has inherited is its parent's. Where there is none yet, it may open its own."""
        if self.recorder is not None:
            self.silence()

    def silence(self) -> None:
        """Write no more, for good."""
        self.recorder = None
        self.write = _nowhere
        for seam in self.seams:
            seam.on = False

    def close(self) -> None:
        if self.recorder is not None:
            with suppress(Exception):
                self.recorder.close()

    # -- seams -----------------------------------------------------------------------------------------------

    def new_seam(self, name: str) -> Seam:
        seam = Seam(name, self.seam_changed)
        self.seams.append(seam)
        return seam

    def left_alone(self, seam: Seam) -> None:
        """Say it once, in the process whose scheduler is concerned: others import the same modules."""
        if self.recorder is not None:
            say("%s is not as known: left alone", seam.name)

    def seam_changed(self, seam: Seam) -> None:
        recorder = self.recorder
        if recorder is None:
            return
        index = self.seams.index(seam)
        recorder.seam(index, seam.state, seam.fired, seam.faults)
        if seam.faults and seam is not self.host_slots:  # whose records say themselves what they lack
            for transfers in (self.loads, self.backups):  # it may have been about to tell us
                transfers.told, transfers.start.open = False, True
            self.first_tokens.untold()
            self.host_copies.forget()
            function = told.function_of(seam.name)
            if function in told.COPIES and seam.state is SeamState.TRIPPED:
                self.host_copies.told = False
            recorder.write(Kind.SEAM_FAULT, b"", index, seam.state, seam.faults)
            if self.witness is not None and function in told.VOIDING_FUNCTIONS:
                self.signing = self.signing and seam.state is not SeamState.TRIPPED
                self.witness.forget()

    # -- requests --------------------------------------------------------------------------------------------

    def key(self, rid: Any) -> bytes:
        """The request id as a record carries it."""
        key = self._keys.get(rid)
        if key is None:
            if self.recorder is None:
                return b""
            text = str(rid)
            self._kept += len(text)
            if self._kept > MAX_RIDS:
                self._keys.clear()
                self._kept = len(text)
            key = self._keys[rid] = self.recorder.key(text)
        return key

    def enter(self, rid: str) -> str:
        """The engine begins to work for a request. Returns whom it worked for before, for ``leave``."""
        outer, self.rid = self.rid, rid
        return outer

    def leave(self, outer: str) -> None:
        self.rid = outer

    # -- transfers -------------------------------------------------------------------------------------------

    def queued(self, transfers: Transfers, node_id: int, tokens: int) -> int:
        """A new operation id for an operation that the engine has just queued.

        A poll of the engine's may hand over what is queued and wait for its end, all in one: its gate opens already.
        """
        transfers.operations += 1
        transfers.told = transfers.start.open = transfers.end.open = True
        if len(transfers.queued) >= MAX_QUEUED:
            transfers.queued.clear()
        transfers.queued.append((node_id, transfers.operations, tokens))
        return transfers.operations

    def submitted(self, transfers: Transfers, ack: Any, producer: int) -> int:
        """The engine merged what was queued into one transfer. Returns its id."""
        self.transfer_id += 1
        operations = transfers.queued
        transfers.queued = []
        tokens, pairs = 0, b""
        for node, operation, count in operations:
            tokens += count
            if len(pairs) < MAX_PAIRS:
                pairs += PAIR.pack(node, operation)
        size = dialects.ack_bytes(ack, tokens, self.controller)
        self.write(
            TRANSFER,
            b"",
            self.transfer_id,
            transfers.direction,
            len(operations),
            tokens,
            size,
            int(dialects.timed(ack)),
            producer,
            extra=pairs,
        )
        if len(transfers.open) >= MAX_OPEN:
            transfers.open.clear()
        transfers.open.append((self.transfer_id, ack, tokens, size))
        transfers.end.open = True
        for name, count, pool_bytes in dialects.other_pools(ack, self.controller):
            text = name.encode()
            self.write(Kind.TRANSFER_POOL, b"", self.transfer_id, count, pool_bytes, len(text), extra=text)
        return self.transfer_id

    def drained(self, transfers: Transfers, queue: Iterable[Any]) -> None:
        """The engine has polled its acks: those gone from its queue have finished."""
        if transfers.open:
            waiting, entries = set(map(id, queue)), transfers.open
            transfers.open = [entry for entry in entries if id(entry[1]) in waiting]
            for entry in entries:
                if id(entry[1]) not in waiting:
                    self._done(transfers.direction, entry, finished=1)
        transfers.end.open = bool(transfers.open or transfers.queued) or self.witness is not None

    def reset(self) -> None:
        """Nothing is resident any more, and nothing that was known of it holds."""
        counts = self.dropped()
        self.promised.clear()
        self.host_copies.forget()
        if self.witness is not None:
            self.witness.forget()
        self.write(RESET, b"", *counts)

    def dropped(self) -> tuple[int, int]:
        """A reset clears the engine's queues without waiting: what is open now will never be acknowledged."""
        counts = len(self.loads.open), len(self.backups.open)
        for transfers in (self.loads, self.backups):
            dropped, transfers.open, transfers.queued = transfers.open, [], []
            for entry in dropped:
                self._done(transfers.direction, entry, finished=0)
        return counts

    def _done(self, direction: Direction, entry: tuple[int, Any, int, int], *, finished: int) -> None:
        transfer_id, ack, tokens, size = entry
        if self.witness is not None:
            if direction is Direction.DEVICE_TO_HOST:
                self.witness.backup_finished(transfer_id)
            else:
                self.witness.load_finished(transfer_id)
        nanoseconds = dialects.device_ns(ack) if finished else ABSENT
        self.write(TRANSFER_DONE, b"", transfer_id, direction, tokens, size, nanoseconds, finished)
