"""Collects, release by release, what attached and fired: ``make matrix`` writes the table that the README shows."""

from __future__ import annotations

import json
import os
from pathlib import Path

from hicache_tracing.records import Kind, SeamState

from ..tracing.ring import Ring


def note(ring: Ring) -> None:
    """Keep what a release showed in the folder that HICACHE_COMPATIBILITY names; without it, nothing."""
    folder = os.environ.get("HICACHE_COMPATIBILITY")
    if not folder:
        return
    identity = ring.identity
    row = {
        "release": identity["engine_version"],
        "tree": identity["tree"],
        "core": identity["tree_core"],
        "controller": identity["controller"],
        "timed": sorted({_direction(fact["direction"]) for fact in ring.facts(Kind.TRANSFER) if fact["timed"]}),
        "content": identity["content_mode"],
        "attached": sorted(name for name, (state, _, _) in ring.seams.items() if state is SeamState.ATTACHED),
        "fired": sorted(name for name, (_, fired, _) in ring.seams.items() if fired),
        "kinds": sorted({record.kind for record in ring.records}),
    }
    Path(folder).mkdir(parents=True, exist_ok=True)
    (Path(folder) / f"{row['release']}.json").write_text(json.dumps(row, indent=1))


def _direction(number: int) -> str:
    return "loads" if number == 0 else "backups"
