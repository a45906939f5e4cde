"""Amounts for people to read. Pure."""

from __future__ import annotations


def size(count: float) -> str:
    """Bytes with a binary prefix."""
    for prefix in ("B", "KiB", "MiB", "GiB"):
        if abs(count) < 1024:
            return f"{count:,.0f} {prefix}" if prefix == "B" else f"{count:,.1f} {prefix}"
        count /= 1024
    return f"{count:,.1f} TiB"
