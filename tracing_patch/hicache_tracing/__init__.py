"""The tracing plugin that runs inside SGLang. Nothing is imported, patched or opened unless HICACHE_WITNESS=1."""

from __future__ import annotations

import os


def register() -> None:
    """Entry point of the group ``sglang.srt.plugins``; SGLang calls it in each of its processes."""
    if os.environ.get("HICACHE_WITNESS") != "1":
        return
    from hicache_tracing.plugin import start

    start()
