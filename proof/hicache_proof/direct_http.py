"""The HTTP client of the lab and the doctor: to the engine directly, with its API key."""

from __future__ import annotations

from pathlib import Path

import httpx


def direct_client(api_key_file: Path | None, *, answer_seconds: float, connect_seconds: float) -> httpx.Client:
    """No proxy of the environment: it would time its own cache. Raises OSError or UnicodeDecodeError for the file."""
    headers = {}
    if api_key_file is not None:
        headers["Authorization"] = f"Bearer {api_key_file.read_text(encoding='utf-8').strip()}"
    timeout = httpx.Timeout(answer_seconds, connect=connect_seconds)
    return httpx.Client(headers=headers, timeout=timeout, trust_env=False)
