"""What the user chose."""

from __future__ import annotations

from typing import NamedTuple


class Options(NamedTuple):
    prefix_tokens: int | None
    repetitions: int
    evict: bool = True
    flush: bool = False
    allow_traffic: bool = False
    without_recorder: bool = False
    """Go on although no flight recorder watches, for what can be had without one."""
    storage: bool = False
    """Series E as well."""
    lengths: tuple[int, ...] = ()
    """Prefix lengths at which an L2 read is held against computing."""
    concurrency: tuple[int, ...] = ()
    """How many requests at once, in turn."""
