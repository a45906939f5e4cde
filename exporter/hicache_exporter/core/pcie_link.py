"""How fast a PCIe link can be at most, and so how soon a 32-bit byte counter on it can wrap."""

from __future__ import annotations

WRAP = 1 << 32
"""The byte counters show the low 32 bits."""

_LANE_TRANSFERS_PER_SECOND = {1: 2.5e9, 2: 5e9, 3: 8e9, 4: 16e9, 5: 32e9, 6: 64e9, 7: 128e9}
_FASTEST_GENERATION, _WIDEST = 6, 16


def link_bytes_per_second(generation: int | None, width: int | None) -> float:
    """Line rate of one direction before encoding: an upper bound of what any counter on the link can show.

    An unknown generation or width counts as the fastest in the field.
    """
    fallback = _LANE_TRANSFERS_PER_SECOND[_FASTEST_GENERATION]
    return _LANE_TRANSFERS_PER_SECOND.get(generation or 0, fallback) * (width or _WIDEST) / 8


def wrap_ns(generation: int | None, width: int | None) -> int:
    """Shortest time in which 4 GiB can pass, in nanoseconds: 67 ms for generation 5, 16 lanes."""
    return int(WRAP / link_bytes_per_second(generation, width) * 1e9)
