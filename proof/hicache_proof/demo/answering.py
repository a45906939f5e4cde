"""Whether a server that was started answers yet."""

from __future__ import annotations

import httpx


def answers(url: str, seconds: float) -> bool:
    """Whether it says 200 to this request, within so many seconds."""
    try:
        return httpx.get(url, timeout=seconds, trust_env=False).status_code == httpx.codes.OK
    except httpx.TransportError:
        return False
