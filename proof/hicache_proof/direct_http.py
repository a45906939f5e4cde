"""The HTTP client of the lab and the doctor: to the engine directly, with its API key."""

from __future__ import annotations

from pathlib import Path

import httpx


def direct_client(api_key_file: Path | None, *, answer_seconds: float, connect_seconds: float) -> httpx.Client:
    """No proxy of the environment: it would time its own cache. Raises OSError or UnicodeDecodeError for the file."""
    timeout = httpx.Timeout(answer_seconds, connect=connect_seconds)
    return httpx.Client(headers=bearer(api_key_file), timeout=timeout, trust_env=False)


def bearer(key_file: Path | None) -> dict[str, str]:
    """The header that carries the key in that file; no header for no file. Raises OSError or UnicodeDecodeError."""
    if key_file is None:
        return {}
    return {"Authorization": f"Bearer {key_file.read_text(encoding='utf-8').strip()}"}
