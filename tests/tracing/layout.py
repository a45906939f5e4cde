"""The ring layout as plain data. ``python tests/tracing/layout.py > tests/tracing/golden/layout-N.json`` keeps one."""

from __future__ import annotations

import json
import sys
from enum import IntEnum
from typing import Any

from hicache_tracing import records

ENUMS: tuple[type[IntEnum], ...] = (
    records.SeamState,
    records.Tier,
    records.Direction,
    records.EvictCause,
    records.LoadBackOutcome,
    records.PrefetchOutcome,
    records.ContentMode,
)


def layout() -> dict[str, Any]:
    """Everything that a reader of another release relies on."""
    return {
        "version": records.LAYOUT_VERSION,
        "magic": records.MAGIC.decode(),
        "sizes": {"header": records.HEADER_SIZE, "slot": records.SLOT_SIZE, "extra": records.MAX_EXTRA},
        "offsets": {
            "head": records.HEAD_OFFSET,
            "closed": records.CLOSED_OFFSET,
            "dropped": records.DROPPED_OFFSET,
            "identity": records.IDENTITY_OFFSET,
            "seams": records.SEAMS_OFFSET,
        },
        "formats": {
            name: getattr(records, name).format
            for name in ("HEADER", "IDENTITY_HEAD", "SEAM", "PREFIX", "BODY", "RUN", "PAIR")
        },
        "absent": records.ABSENT,
        "kinds": {kind.name: [kind.value, *records.FIELDS[kind]] for kind in records.Kind},
        "enums": {enum.__name__: {member.name: member.value for member in enum} for enum in ENUMS},
    }


if __name__ == "__main__":
    json.dump(layout(), sys.stdout, indent=2)
    print()
