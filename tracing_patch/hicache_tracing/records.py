"""The flight-recorder file format: what the engine process writes and the sidecar reads.

One file per engine process. Both sides import this module, so the layout cannot drift.

::

    0        64 KiB header           HEADER: magic, versions, ring size, clocks, head, identity (JSON), seam table
    65536    capacity x 128 bytes    the ring: fixed-size slots

A *record* takes ``span`` consecutive slots (ring order, wrapping). The first slot holds the fixed part, further
slots hold ``extra`` bytes (slot runs, node ids, long texts). ``seq`` is the position of the record's first slot,
counted from 1 since the file was created; it never repeats. ``head`` in the header is the number of slots
committed. A reader trusts a record only if ``seq`` is the expected one and the checksum over the rest agrees, so a
record that was torn by a crash, or overwritten while it was being read, is noticed and counted. Layout 1 differs in
the checksum only: a CRC, whose tables the writer had to fetch from memory again after every forward pass.

Times are CLOCK_MONOTONIC nanoseconds: one clock for all processes of a machine that nothing steps. The header
carries one (monotonic, wall) pair to place them in calendar time.

Standard library only: this module is imported inside the engine.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterable
from enum import IntEnum
from hashlib import blake2b
from typing import NamedTuple
from zlib import adler32, crc32

LAYOUT_VERSION = 2
MAGIC = b"HICACHEW"

HEADER_SIZE = 65536
SLOT_SIZE = 128
DEFAULT_CAPACITY = 32768  # slots: 4 MiB, 1.6 s of 20,000 records/s

ABSENT = -(1 << 63)
"""A number that the engine did not give. Zero and absent are different facts."""

# -- header ------------------------------------------------------------------------------------------------------
# magic, layout version, header size, slot size, capacity, pid, created (monotonic ns), created (wall ns)
HEADER = struct.Struct("<8sIIIIQQQ")
HEAD_OFFSET = 64  # u64: slots committed. Eight aligned bytes: one store.
CLOSED_OFFSET = 72  # u64: monotonic ns at which the writer closed the ring in good order, 0 while it is open
DROPPED_OFFSET = 80  # u64: records the writer itself gave up on (too long, or a fault while writing)
IDENTITY_OFFSET = 128  # u32 length, u32 crc32, then UTF-8 JSON
IDENTITY_HEAD = struct.Struct("<II")
IDENTITY_ROOM = 32768 - IDENTITY_OFFSET
SEAMS_OFFSET = 32768  # table of SEAM rows, one per seam, in the order of identity["seams"]
SEAM = struct.Struct("<BBHIQ")  # state, fired, reserved, faults, reserved
SEAMS_ROOM = (HEADER_SIZE - SEAMS_OFFSET) // SEAM.size

# -- slot --------------------------------------------------------------------------------------------------------
PREFIX = struct.Struct("<QI")  # seq, checksum of the rest of the record
BODY = struct.Struct("<HHQ40s8q")  # kind, span, monotonic ns, request id, eight numbers
assert PREFIX.size + BODY.size == SLOT_SIZE
NUMBERS = 8
CHECKSUMS = {1: (crc32, 1 << 32), 2: (adler32, 65521)}
"""By layout: the checksum over all of a record but ``seq`` and itself; it starts from ``seq`` modulo this number."""
SEEDS = CHECKSUMS[LAYOUT_VERSION][1]
RID_SIZE = 40
MAX_EXTRA = 254 * SLOT_SIZE
MAX_TEXT = 1024  # bytes kept of a long request id: a client chooses it, and must not push others' records out

RUN = struct.Struct("<II")  # first slot, count: a run of consecutive host slots
MAX_RUNS = 2048
PAIR = struct.Struct("<qq")  # node id, operation id


class SeamState(IntEnum):
    """What became of one patched engine function."""

    MISSING = 0  # this engine has no such function
    UNRECOGNISED = 1  # it has, with parameters we do not know: left alone
    ATTACHED = 2
    TRIPPED = 3  # switched itself off after repeated faults of ours
    PENDING = 4  # its module has not been imported by the engine yet


class Kind(IntEnum):
    """Record kinds. FIELDS gives the meaning of the eight numbers of each."""

    LOOKUP = 1
    ADMIT = 2
    LOAD_BACK = 3
    LOAD = 4
    BACKUP = 5
    TRANSFER = 6
    TRANSFER_DONE = 7
    EVICT = 8
    RESET = 9
    CONTENT = 10
    FIRST_TOKEN = 11
    FINISH = 12
    TEXT = 13
    SEAM_FAULT = 14
    TRACE = 15
    MEMORY = 16
    WEIGHTS = 17
    STORAGE_PREFETCH = 21
    STORAGE_BACKUP = 22
    STORAGE_ATTACH = 23
    TRANSFER_POOL = 24


FIELDS: dict[Kind, tuple[str, ...]] = {
    # what the tree promised a request when the scheduler tried to admit it (once per changed promise)
    Kind.LOOKUP: ("prompt_tokens", "device_tokens", "host_tokens", "storage_tokens", "node_id"),
    # the one place where a hit is counted: the request's first prefill chunk is scheduled.
    # *_tokens by tier are the engine's own attribution, ABSENT where it has none
    Kind.ADMIT: (
        "prompt_tokens",
        "device_tokens",
        "host_tokens",
        "storage_tokens",
        "cached_tokens",
        "computed_tokens",
        "first_chunk_tokens",
    ),
    # init_load_back returned: what was promised, what was loaded, why not (LoadBackOutcome)
    Kind.LOAD_BACK: (
        "promised_tokens",
        "loaded_tokens",
        "outcome",
        "node_id",
        "threshold",
        "quota",
        "evicted_tokens",
        "refused_loads",
    ),
    # one host-to-device operation queued; extra = runs of the host slots it reads
    Kind.LOAD: ("node_id", "tokens", "operation_id", "runs", "runs_complete"),
    # one device-to-host operation queued (accepted 1) or refused for lack of host room (0);
    # extra = runs of the host slots it writes; rid = the request in whose scope it was started, if any
    Kind.BACKUP: ("node_id", "tokens", "operation_id", "runs", "runs_complete", "accepted"),
    # queued operations merged and handed to the device; extra = PAIRs (node id, operation id)
    Kind.TRANSFER: (
        "transfer_id",
        "direction",
        "operations",
        "tokens",
        "bytes",
        "timed",
        "producer_id",
    ),
    # what one transfer moves of a pool beside the KV pool (sliding window, state, indexer), where the engine tells it;
    # extra = the pool's name, UTF-8, of that length
    Kind.TRANSFER_POOL: ("transfer_id", "tokens", "bytes", "length"),
    # the engine saw the transfer's finish event (finished 1) or dropped it in a reset (0);
    # device_ns: span between the engine's own two events, ABSENT where the engine does not time it
    Kind.TRANSFER_DONE: ("transfer_id", "direction", "tokens", "bytes", "device_ns", "finished"),
    # tokens leaving a tier (Tier), and how (EvictCause); extra = runs of the host slots that keep a copy of what
    # left the device (DEMOTED only; runs_complete 0 where this engine does not let them be read)
    Kind.EVICT: ("tier", "cause", "node_id", "tokens", "runs", "runs_complete"),
    # the cache was flushed: everything known about residency is void
    Kind.RESET: ("open_loads", "open_backups"),
    # rows loaded by one transfer compared with the signatures taken when they were backed up
    Kind.CONTENT: ("transfer_id", "checked", "mismatched", "unseen", "mode", "layers", "cost_ns"),
    Kind.FIRST_TOKEN: ("prompt_tokens", "received_ns", "prefill_start_ns", "batch_requests"),
    Kind.FINISH: ("prompt_tokens", "output_tokens", "aborted", "retractions"),
    # rid = the short key of a long request id; extra = its UTF-8 text, kept once and cut at MAX_TEXT;
    # length is that of the whole
    Kind.TEXT: ("length",),
    Kind.SEAM_FAULT: ("seam", "state", "faults"),
    # SGLang's own trace context of the request: 128-bit trace id in two halves (signed), 64-bit span id
    Kind.TRACE: ("trace_id_high", "trace_id_low", "span_id", "sampled"),
    Kind.MEMORY: (
        "allocated_bytes",
        "reserved_bytes",
        "weights_bytes",
        "kv_pool_bytes",
        "host_pool_bytes",
        "host_pinned",
    ),
    Kind.WEIGHTS: ("updates",),
    # a request's read from storage into the host, at each turn it takes (PrefetchOutcome);
    # extra = runs of the host slots that it filled (TRANSFERRED only)
    Kind.STORAGE_PREFETCH: (
        "operation_id",
        "asked_tokens",
        "hit_tokens",
        "transferred_tokens",
        "used_tokens",
        "outcome",
        "runs",
        "runs_complete",
    ),
    # host-to-storage backup queued (finished 0), then acknowledged (1); tokens of an acknowledgement are ABSENT
    Kind.STORAGE_BACKUP: ("operation_id", "tokens", "finished"),
    # the storage backend was attached (1) or detached (0) at run time, and whether this rank succeeded
    Kind.STORAGE_ATTACH: ("attached", "succeeded"),
}


class Tier(IntEnum):
    DEVICE = 0
    HOST = 1
    STORAGE = 2


class Direction(IntEnum):
    HOST_TO_DEVICE = 0
    DEVICE_TO_HOST = 1


class EvictCause(IntEnum):
    DEMOTED = 0  # left the device, its host copy stays
    DROPPED = 1  # left the device without a host copy
    HOST_EVICTED = 2  # left the host


class LoadBackOutcome(IntEnum):
    LOADED = 0
    BELOW_THRESHOLD = 1
    OVER_QUOTA = 2
    NO_ROOM = 3
    BUFFER_MODE = 4
    NOTHING = 5  # nothing was promised
    UNKNOWN = 6


class PrefetchOutcome(IntEnum):
    ASKED = 0
    TRANSFERRED = 1  # now in the host; used_tokens are those that were not there already
    REVOKED = 2
    DEADLINE = 3  # given up when the policy's time was over
    DECLINED = 4  # this engine does not let us see why
    USED = 5  # the request's admission collected it
    TOO_SHORT = 6  # declined: fewer tokens than the threshold
    RATE_LIMITED = 7  # declined: too much under way


class ContentMode(IntEnum):
    SAMPLED = 1
    FULL = 2


class Record(NamedTuple):
    """One decoded record. ``rid`` is "" where no request is concerned."""

    seq: int
    t_ns: int
    kind: int
    rid: str
    numbers: tuple[int, ...]
    extra: bytes

    def named(self) -> dict[str, int]:
        """The numbers under their names; unknown kinds have none."""
        fields = FIELDS.get(self.kind, ())  # type: ignore[call-overload]
        return dict(zip(fields, self.numbers, strict=False))


_SURROGATE = re.compile("[\ud800-\udfff]")
LONG_MARK = 0xFF  # never a first byte of UTF-8: marks the short key of a long id


def encode_rid(rid: str) -> bytes:
    """The id as at most 40 bytes: its UTF-8, or a key of it: mark, 16-byte hash, its first bytes.

    A key stands for ids that are long, and for those whose decoded text could be taken for another's: with NUL, with
    surrogates, with the ``~`` that ``decode_rid`` puts before a hash.
    """
    if len(rid) <= RID_SIZE and rid.isascii() and rid.isprintable() and rid < "~":
        return rid.encode()  # nearly all of them
    raw = rid.encode("utf-8", "surrogatepass")
    if len(raw) <= RID_SIZE and b"\0" not in raw and raw[:1] != b"~" and not _SURROGATE.search(rid):
        return raw
    return b"\xff" + blake2b(raw, digest_size=16).digest() + raw[: RID_SIZE - 17].rstrip(b"\0")


def is_long(key: bytes) -> bool:
    return bool(key) and key[0] == LONG_MARK


def decode_rid(key: bytes) -> str:
    """Text of a short id; of a long one ``~`` and the hash in hex (the TEXT record has the rest)."""
    if is_long(key):
        return "~" + key[1:17].hex()
    return key.rstrip(b"\0").decode("utf-8", "replace")


def pack(seq: int, kind: int, t_ns: int, rid: bytes, numbers: tuple[int, ...], extra: bytes = b"") -> bytes:
    """A record's bytes, a multiple of SLOT_SIZE. Raises ValueError if ``extra`` is longer than MAX_EXTRA."""
    span = 1 - -len(extra) // SLOT_SIZE
    rest = BODY.pack(kind, span, t_ns, rid, *numbers, *(0,) * (NUMBERS - len(numbers))) + padded(extra)
    return PREFIX.pack(seq, adler32(rest, seq % SEEDS)) + rest


def padded(extra: bytes) -> bytes:
    """Filled up with zeros to whole slots. Raises ValueError if it is longer than MAX_EXTRA."""
    if len(extra) > MAX_EXTRA:
        raise ValueError(f"extra of {len(extra)} bytes, {MAX_EXTRA} at most")
    return extra + bytes(-len(extra) % SLOT_SIZE)


def pack_runs(runs: Iterable[tuple[int, int]]) -> bytes:
    return b"".join(RUN.pack(first, count) for first, count in runs)


def unpack_runs(extra: bytes, runs: int) -> list[tuple[int, int]]:
    """(first host slot, count) pairs; ``runs`` is the record's number of them (extra is padded)."""
    return list(RUN.iter_unpack(extra[: runs * RUN.size]))


def unpack_pairs(extra: bytes, pairs: int) -> list[tuple[int, int]]:
    """(node id, operation id) pairs of a TRANSFER."""
    return list(PAIR.iter_unpack(extra[: pairs * PAIR.size]))
