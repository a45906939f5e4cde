"""An engine's process without an engine: the real recorder, written to as a scheduler writes to it, at a set pace.

    python benchmarks/ring_writer.py FOLDER --rate 20000 --seconds 600 --account FILE

Story after story: a prompt that nobody knows is computed and backed up, leaves the device, and comes back from the host
for the request after it. ``--account`` is a file that says at any moment, also after a SIGKILL, what was written so
far (Account). On SIGTERM it writes no more, says so, and lives on until its stdin closes; then the account is exact.
"""

from __future__ import annotations

import argparse
import mmap
import os
import signal
import struct
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

from hicache_tracing import records
from hicache_tracing.recorder import Recorder
from hicache_tracing.records import DEFAULT_CAPACITY, Direction, EvictCause, Kind, SeamState, Tier

TOKENS, SLOT_BYTES = 256, 512
HOST_SLOTS = 1 << 20
SEAMS = (
    *("PrefillAdder.add_one_req", "ScheduleBatch.prepare_for_extend", "UnifiedRadixCache.init_load_back"),
    *("HybridCacheController.load", "HybridCacheController.write", "HiCacheController.start_loading"),
    *("UnifiedRadixCache.loading_check", "UnifiedRadixCache._demote"),
)
IDENTITY = {
    "engine_version": "0.5.23",
    "page_size": 64,
    "bytes_per_token": SLOT_BYTES,
    "model": "none",
    **{f"{way}_rank": 0 for way in ("tp", "pp", "dp")},
    **{f"{way}_size": 1 for way in ("tp", "pp", "dp")},
    "host": "127.0.0.1",
    "tree": "UnifiedRadixCache",
    "controller": "HybridCacheController",
    "write_policy": "write_through",
    "device_tokens": 4096,
    "host_tokens": HOST_SLOTS,
    "content_mode": "off",
    "seams": list(SEAMS),
}
PIECE_SECONDS = 0.005


class Account(NamedTuple):
    """Of one process: what it had written. After SIGKILL the ring may hold one record more."""

    records: int
    slots: int
    stories: int
    """Whole ones; each has a request that read nothing and one that read L2."""
    hit_tokens: int
    """Prompt tokens that admissions found in the host."""
    admitted: int


FORM = struct.Struct("<5Q")


def read_account(path: Path) -> Account:
    return Account(*FORM.unpack(path.read_bytes()[: FORM.size]))


class Writer:
    """Writes stories, a record a step, and keeps the account."""

    def __init__(self, folder: str, slots: int, port: int, account: Path | None, *, even: bool) -> None:
        self._recorder = Recorder(folder, slots)
        self._recorder.identify(IDENTITY | {"port": port})
        for index in range(len(SEAMS)):
            self._recorder.seam(index, SeamState.ATTACHED, True, 0)
        self._even = even
        self._account = memoryview(_account(account)).cast("Q")

    def steps(self) -> Iterator[None]:
        """One record a step, for ever."""
        account, write, number = self._account, self._recorder.write, 0
        while True:
            for kind, rid, numbers, extra in self._story(number):
                before = self._recorder.head
                write(kind, rid, *numbers, extra=extra or (b"\0" if self._even else b""))
                account[0] += 1
                account[1] += self._recorder.head - before
                if kind is Kind.ADMIT:
                    account[3] += numbers[2]
                    account[4] += 1
                yield
            account[2] += 1
            number += 1

    def _story(self, number: int) -> Iterator[tuple[Kind, bytes, tuple[int, ...], bytes]]:
        """A request that computes its prefix, and one that reads it back from the host."""
        key, name = self._recorder.key, f"{os.getpid()}-{number}"
        cold, warm = key(f"{name}-cold"), key(f"{name}-warm")
        node, operation = number + 10, number + 1
        there, back = 2 * number + 1, 2 * number + 2  # transfer ids
        slots = records.pack_runs([(number * TOKENS % HOST_SLOTS, TOKENS)])
        pair, size = records.PAIR.pack(node, operation), TOKENS * SLOT_BYTES
        out, into, prompt = Direction.DEVICE_TO_HOST, Direction.HOST_TO_DEVICE, TOKENS + 1
        yield Kind.LOOKUP, cold, (prompt, 0, 0, 0, 1), b""
        yield Kind.ADMIT, cold, (prompt, 0, 0, 0, 0, prompt, prompt), b""
        yield Kind.FIRST_TOKEN, cold, (prompt, time.monotonic_ns() - 10_000_000, 0, 1), b""
        yield Kind.BACKUP, cold, (node, TOKENS, operation, 1, 1, 1), slots
        yield Kind.TRANSFER, b"", (there, out, 1, TOKENS, size, 1, -1), pair
        yield Kind.FINISH, cold, (prompt, 4, 0, 0), b""
        yield Kind.TRANSFER_DONE, b"", (there, out, TOKENS, size, 200_000, 1), b""
        yield Kind.EVICT, b"", (Tier.DEVICE, EvictCause.DEMOTED, node, TOKENS), b""
        yield Kind.LOOKUP, warm, (prompt, 0, TOKENS, 0, node), b""
        yield Kind.LOAD, warm, (node, TOKENS, operation, 1, 1), slots
        yield Kind.LOAD_BACK, warm, (TOKENS, TOKENS, 0, node, 10, -1, 0, 0), b""
        yield Kind.ADMIT, warm, (prompt, 0, TOKENS, 0, TOKENS, 1, 1), b""
        yield Kind.TRANSFER, b"", (back, into, 1, TOKENS, size, 1, 0), pair
        yield Kind.FIRST_TOKEN, warm, (prompt, time.monotonic_ns() - 10_000_000, 0, 1), b""
        yield Kind.TRANSFER_DONE, b"", (back, into, TOKENS, size, 200_000, 1), b""
        yield Kind.FINISH, warm, (prompt, 4, 0, 0), b""

    def close(self) -> None:
        self._recorder.close()


def _account(path: Path | None) -> mmap.mmap:
    if path is None:
        return mmap.mmap(-1, FORM.size)
    with path.open("w+b") as file:
        file.truncate(FORM.size)
        return mmap.mmap(file.fileno(), FORM.size)


def pace(step: Callable[[], object], rate: float, going: Callable[[], bool]) -> None:
    """Call ``step`` ``rate`` times a second, in pieces of five milliseconds; what was missed is made up for."""
    began, done = time.monotonic(), 0
    while going():
        for _ in range(int((time.monotonic() - began) * rate) - done):
            step()
            done += 1
            if done % 4096 == 0 and not going():
                return
        time.sleep(PIECE_SECONDS)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder")
    parser.add_argument("--rate", type=float, default=20_000, help="records a second")
    parser.add_argument("--seconds", type=float, default=float("inf"))
    parser.add_argument("--slots", type=int, default=DEFAULT_CAPACITY)
    parser.add_argument("--port", type=int, default=30000, help="of the engine that it says it belongs to")
    parser.add_argument("--account", type=Path)
    parser.add_argument("--even", action="store_true", help="every record takes two slots of the ring")
    parser.add_argument("--hold", action="store_true", help="begin when a line comes on stdin")
    options = parser.parse_args()
    told: list[int] = []
    signal.signal(signal.SIGTERM, lambda number, _: told.append(number))
    writer = Writer(options.folder, options.slots, options.port, options.account, even=options.even)
    print("writing", flush=True)
    if options.hold:
        sys.stdin.readline()
    end = time.monotonic() + options.seconds
    steps = writer.steps()
    pace(lambda: next(steps), options.rate, lambda: not told and time.monotonic() < end)
    print("written", flush=True)
    sys.stdin.read()
    writer.close()


if __name__ == "__main__":
    main()
