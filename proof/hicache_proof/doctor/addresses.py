"""Whether two ways of writing an engine's address mean the same one."""

from __future__ import annotations

from collections.abc import Sequence
from urllib.parse import urlsplit


def same_engine(url: str, addresses: Sequence[str]) -> str | None:
    """Of ``host:port`` addresses the one of ``url``: the same text, or the only one with the same port."""
    parts = urlsplit(url if "://" in url else f"http://{url}")
    if parts.netloc in addresses:
        return parts.netloc
    same_port = [address for address in addresses if address.rpartition(":")[2] == str(parts.port)]
    return same_port[0] if len(same_port) == 1 else None
