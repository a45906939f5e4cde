"""The page of the flight recorder's records, from the layout that both sides import."""

from __future__ import annotations

from hicache_tracing import records
from hicache_tracing.records import FIELDS, Kind

from .markdown import code, codes, page, table

INTRODUCTION = f"""
Layout version {records.LAYOUT_VERSION}. One ring file a scheduler process: {records.HEADER_SIZE // 1024} KiB of
header (identity as JSON, table of seams), then {records.DEFAULT_CAPACITY:,} slots of {records.SLOT_SIZE} bytes unless
`HICACHE_WITNESS_SLOTS` says otherwise. A record has a sequence number, a checksum, a time (CLOCK_MONOTONIC,
nanoseconds), a request id where one is concerned, and the numbers below; it takes further slots for runs of host
slots and long texts. A number that the engine did not give is kept as absent, never as zero.
"""
SEAMS = """
## States of a seam

`hicache_seam_state` shows one of these for each patched engine function:
"""


def rendered() -> str:
    kinds = table(("kind", "number", "fields"), [(code(k.name), str(int(k)), codes(FIELDS[k])) for k in Kind])
    states = table(("state", "number"), [(code(state.name.lower()), str(int(state))) for state in records.SeamState])
    parts = (INTRODUCTION, kinds, SEAMS, states)
    return page("Records", *parts, source="tracing_patch/hicache_tracing/records.py")
