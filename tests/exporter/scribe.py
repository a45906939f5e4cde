"""Writes flight-recorder rings as an engine process would, with times and faults of the test's choosing."""

from __future__ import annotations

import json
import os
import struct
import time
import weakref
from pathlib import Path
from zlib import crc32

from hicache_tracing import records
from hicache_tracing.records import ABSENT, FIELDS, HEADER_SIZE, SLOT_SIZE, Direction, EvictCause, Kind, Tier

MS = 1_000_000
SEAMS = (
    "PrefillAdder.add_one_req",
    "ScheduleBatch.prepare_for_extend",
    "UnifiedRadixCache.init_load_back",
    "HybridCacheController.load",
    "HybridCacheController.write",
    "HiCacheController.start_loading",
    "UnifiedRadixCache.loading_check",
    "UnifiedRadixCache._demote",
    "HiRadixCache.init_load_back",
)
IDENTITY = {
    "engine_version": "0.5.23",
    "tp_rank": 0,
    "pp_rank": 0,
    "dp_rank": 0,
    "tp_size": 1,
    "pp_size": 1,
    "dp_size": 1,
    "page_size": 1,
    "bytes_per_token": 512,
    "model": "tiny",
    "served_model_name": "tiny",
    "host": "127.0.0.1",
    "port": 30000,
    "tree": "UnifiedRadixCache",
    "controller": "HybridCacheController",
    "write_policy": "write_through",
    "device_tokens": 1000,
    "host_tokens": 4000,
    "content_mode": "off",
    "seams": list(SEAMS),
}


class Scribe:
    """Turns facts into the bytes of records. ``now_ns`` moves on by a millisecond a record."""

    def __init__(self, start_ns: int = 1_000 * MS) -> None:
        self.now_ns = start_ns
        self.next_seq = 1
        self.pieces: list[bytes] = []

    def write(self, kind: int, rid: str | bytes = "", extra: bytes = b"", **fields: int) -> int:
        """Append a record, its numbers by name (those not named are 0). Returns its seq."""
        names = FIELDS[Kind(kind)] if kind in FIELDS else ()
        unknown = set(fields) - set(names)
        assert not unknown, unknown
        numbers = tuple(int(fields.get(name, 0)) for name in names)
        key = records.encode_rid(rid) if isinstance(rid, str) else rid
        seq = self.next_seq
        self.put(records.pack(seq, kind, self.now_ns, key, numbers, extra))
        self.now_ns += MS
        return seq

    def put(self, data: bytes) -> None:
        self.next_seq += len(data) // SLOT_SIZE
        self.pieces.append(data)

    # -- what an engine does -----------------------------------------------------------------------------------

    def lookup(self, rid: str, prompt: int, *, device: int = 0, host: int = 0, storage: int = 0, node: int = 1) -> None:
        self.write(
            Kind.LOOKUP,
            rid,
            prompt_tokens=prompt,
            device_tokens=device,
            host_tokens=host,
            storage_tokens=storage,
            node_id=node,
        )

    def admit(self, rid: str, prompt: int, *, device: int = 0, host: int = 0, storage: int = 0) -> None:
        cached = ABSENT if ABSENT in (device, host) else device + host + storage
        self.write(
            Kind.ADMIT,
            rid,
            prompt_tokens=prompt,
            device_tokens=device,
            host_tokens=host,
            storage_tokens=storage,
            cached_tokens=cached,
            computed_tokens=prompt - max(cached, 0),
        )

    def first_token(self, rid: str, prompt: int = 0, ttft_ms: int = 20) -> None:
        received = self.now_ns - ttft_ms * MS
        self.write(Kind.FIRST_TOKEN, rid, prompt_tokens=prompt, received_ns=received, batch_requests=1)

    def finish(self, rid: str, prompt: int = 0) -> None:
        self.write(Kind.FINISH, rid, prompt_tokens=prompt, output_tokens=4)

    def load(self, rid: str, operation: int, runs: list[tuple[int, int]], *, node: int = 1) -> None:
        self.write(
            Kind.LOAD,
            rid,
            records.pack_runs(runs),
            node_id=node,
            tokens=sum(count for _, count in runs),
            operation_id=operation,
            runs=len(runs),
            runs_complete=1,
        )

    def load_back(self, rid: str, promised: int, loaded: int, *, outcome: int = 0, node: int = 1) -> None:
        self.write(
            Kind.LOAD_BACK,
            rid,
            promised_tokens=promised,
            loaded_tokens=loaded,
            outcome=outcome,
            node_id=node,
            threshold=10,
            quota=ABSENT,
        )

    def backup(
        self, rid: str, operation: int, runs: list[tuple[int, int]], *, node: int = 1, complete: int = 1
    ) -> None:
        self.write(
            Kind.BACKUP,
            rid,
            records.pack_runs(runs),
            node_id=node,
            tokens=sum(count for _, count in runs),
            operation_id=operation,
            runs=len(runs),
            runs_complete=complete,
            accepted=1,
        )

    def transfer(self, identifier: int, direction: Direction, pairs: list[tuple[int, int]], tokens: int) -> None:
        self.write(
            Kind.TRANSFER,
            "",
            b"".join(records.PAIR.pack(*pair) for pair in pairs),
            transfer_id=identifier,
            direction=direction,
            operations=len(pairs),
            tokens=tokens,
            bytes=tokens * 512 if tokens != ABSENT else ABSENT,
            timed=1,
        )

    def transfer_done(
        self, identifier: int, direction: Direction, tokens: int, *, device_ns: int = 2 * MS, finished: int = 1
    ) -> None:
        self.write(
            Kind.TRANSFER_DONE,
            "",
            transfer_id=identifier,
            direction=direction,
            tokens=tokens,
            bytes=tokens * 512 if tokens != ABSENT else ABSENT,
            device_ns=device_ns,
            finished=finished,
        )

    def demote(self, node: int, tokens: int) -> None:
        self.write(Kind.EVICT, "", tier=Tier.DEVICE, cause=EvictCause.DEMOTED, node_id=node, tokens=tokens)

    # -- whole stories -----------------------------------------------------------------------------------------

    def cold_request(self, rid: str, tokens: int = 300, *, slot: int = 0, node: int = 1, operation: int = 1) -> None:
        """A request that finds nothing, computes all, and is backed up to the host by transfer ``operation``."""
        self.lookup(rid, tokens, node=node)
        self.admit(rid, tokens)
        self.first_token(rid, tokens)
        self.backup(rid, operation, [(slot, tokens)], node=node)
        self.transfer(operation, Direction.DEVICE_TO_HOST, [(node, operation)], tokens)
        self.finish(rid, tokens)
        self.transfer_done(operation, Direction.DEVICE_TO_HOST, tokens)

    def host_request(
        self, rid: str, tokens: int = 300, *, slot: int = 0, node: int = 1, operation: int = 1, transfer: int = 100
    ) -> None:
        """A request whose prefix is read back from the host, all but its last token."""
        self.lookup(rid, tokens, host=tokens - 1, node=node)
        self.load(rid, operation, [(slot, tokens - 1)], node=node)
        self.load_back(rid, tokens - 1, tokens - 1, node=node)
        self.admit(rid, tokens, host=tokens - 1)
        self.transfer(transfer, Direction.HOST_TO_DEVICE, [(node, operation)], tokens - 1)
        self.first_token(rid, tokens)
        self.transfer_done(transfer, Direction.HOST_TO_DEVICE, tokens - 1)
        self.finish(rid, tokens)


class RingFile(Scribe):
    """A ring file in ``folder``, made like the plugin's."""

    def __init__(
        self,
        folder: Path,
        *,
        capacity: int = 1024,
        identity: dict[str, object] | None = None,
        pid: int | None = None,
        created_ns: int | None = None,
        start_ns: int | None = None,
    ) -> None:
        created = time.monotonic_ns() if created_ns is None else created_ns
        super().__init__(created if start_ns is None else start_ns)
        self.capacity = capacity
        self.pid = os.getpid() if pid is None else pid
        self.created_wall_ns = time.time_ns()
        folder.mkdir(mode=0o700, exist_ok=True)
        self.path = folder / f"{self.pid}-{self.created_wall_ns}.ring"
        self.descriptor = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
        self.close = weakref.finalize(self, os.close, self.descriptor)
        os.ftruncate(self.descriptor, HEADER_SIZE + capacity * SLOT_SIZE)
        self.at(
            0,
            records.HEADER.pack(
                records.MAGIC,
                records.LAYOUT_VERSION,
                HEADER_SIZE,
                SLOT_SIZE,
                capacity,
                self.pid,
                created,
                self.created_wall_ns,
            ),
        )
        self.identify(IDENTITY if identity is None else identity)
        self.seams(dict.fromkeys(SEAMS[:-1], records.SeamState.ATTACHED))

    def at(self, offset: int, data: bytes) -> None:
        os.pwrite(self.descriptor, data, offset)

    def identify(self, identity: dict[str, object]) -> None:
        text = json.dumps(identity).encode()
        self.at(records.IDENTITY_OFFSET, records.IDENTITY_HEAD.pack(len(text), crc32(text)) + text)

    def seams(self, states: dict[str, int], faults: int = 0) -> None:
        for index, name in enumerate(SEAMS):
            row = records.SEAM.pack(states.get(name, records.SeamState.MISSING), 1, 0, faults, 0)
            self.at(records.SEAMS_OFFSET + index * records.SEAM.size, row)

    def put(self, data: bytes) -> None:
        """Write a record and commit it."""
        self.place(data, self.next_seq)
        self.next_seq += len(data) // SLOT_SIZE
        self.commit(self.next_seq - 1)

    def place(self, data: bytes, seq: int) -> None:
        """Write slots from position ``seq`` on, without committing them."""
        for at in range(0, len(data), SLOT_SIZE):
            index = (seq - 1 + at // SLOT_SIZE) % self.capacity
            self.at(HEADER_SIZE + index * SLOT_SIZE, data[at : at + SLOT_SIZE])

    def commit(self, head: int) -> None:
        self.at(records.HEAD_OFFSET, struct.pack("<Q", head))

    def dropped(self, count: int) -> None:
        self.at(records.DROPPED_OFFSET, struct.pack("<Q", count))
