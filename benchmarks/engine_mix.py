"""What an engine under load records of a request that hits L2: its backup, an eviction, its load, its transfers."""

from __future__ import annotations

import time

from hicache_tracing import records
from hicache_tracing.recorder import Recorder
from hicache_tracing.records import ABSENT, PAIR, Direction, EvictCause, Kind, Tier

RECORDS_A_REQUEST = 13
TOKENS, SIZE, DEVICE_NS = 256, 131_072, 200_000
IDENTITY = {
    "engine_version": "0.5.23",
    "model": "tiny",
    "host": "127.0.0.1",
    "port": 30000,
    "controller": "HybridCacheController",
    "tree": "UnifiedRadixCache",
    "page_size": 64,
    "bytes_per_token": 512,
    "device_tokens": 100_000,
    "host_tokens": 500_000,
    "content_mode": "off",
}


class Mix:
    """The requests of one rank, one after another, over a host pool of 500,000 slots."""

    def __init__(self, recorder: Recorder, name: str = "request") -> None:
        self.recorder, self._name = recorder, name
        self._number = self._slot = 0

    def request(self) -> str:
        """Record one more request. Returns its id."""
        number, write = self._number, self.recorder.write
        text = f"{self._name}-{number:08d}-of-a-usual-length"
        rid, node = self.recorder.key(text), number + 10
        backup = load = up = 2 * number
        runs = records.pack_runs((self._slot + 128 * index, 64) for index in range(4))
        to_host, to_device = Direction.DEVICE_TO_HOST, Direction.HOST_TO_DEVICE
        write(Kind.LOOKUP, rid, 4096, 0, TOKENS, 0, node)
        write(Kind.BACKUP, rid, node, TOKENS, backup, 4, 1, 1, extra=runs)
        write(Kind.TRANSFER, b"", up, to_host, 1, TOKENS, SIZE, 1, -1, extra=PAIR.pack(node, backup))
        write(Kind.TRANSFER_DONE, b"", up, to_host, TOKENS, SIZE, DEVICE_NS, 1)
        write(Kind.EVICT, b"", Tier.DEVICE, EvictCause.DEMOTED, node, TOKENS)
        write(Kind.EVICT, b"", Tier.DEVICE, EvictCause.DROPPED, node + 1, 64)
        write(Kind.LOAD, rid, node, TOKENS, load + 1, 4, 1, extra=runs)
        write(Kind.LOAD_BACK, rid, TOKENS, TOKENS, 0, node, 10, ABSENT, 0, 0)
        write(Kind.ADMIT, rid, 4096, 0, TOKENS, 0, TOKENS, 3840, 3840, 0)
        write(Kind.TRANSFER, b"", up + 1, to_device, 1, TOKENS, SIZE, 1, 0, extra=PAIR.pack(node, load + 1))
        write(Kind.FIRST_TOKEN, rid, 4096, time.monotonic_ns() - 10_000_000, 0, 4)
        write(Kind.TRANSFER_DONE, b"", up + 1, to_device, TOKENS, SIZE, DEVICE_NS, 1)
        write(Kind.FINISH, rid, 4096, 128, 0, 0)
        self._number = number + 1
        self._slot = (self._slot + 512) % 500_000
        return text
