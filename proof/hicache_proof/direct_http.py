"""The HTTP client of the lab, the doctor and storage: to the engine directly, with its API key, and with bounds."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import cast

import httpx

LARGEST_ANSWER = 64 * 1024 * 1024
"""Bytes: /metrics of 8 ranks has about one megabyte, and a proof with all its events less."""


def direct_client(api_key_file: Path | None, *, answer_seconds: float, connect_seconds: float) -> httpx.Client:
    """No proxy of the environment: it would time its own cache. Raises OSError or UnicodeDecodeError for the file.

    ``answer_seconds`` is the time for a whole answer, also for one that comes a byte at a time.
    """
    return httpx.Client(
        headers={"Accept-Encoding": "identity", **bearer(api_key_file)},
        timeout=httpx.Timeout(answer_seconds, connect=connect_seconds),
        transport=_Bounded(trust_env=False),
        trust_env=False,
    )


def bearer(key_file: Path | None) -> dict[str, str]:
    """The header that carries the key in that file; no header for no file. Raises OSError or UnicodeDecodeError."""
    if key_file is None:
        return {}
    return {"Authorization": f"Bearer {key_file.read_text(encoding='utf-8').strip()}"}


def text_of(answer: httpx.Response) -> str:
    """Whatever encoding it claims: the codecs that it could name so raise what they like."""
    return answer.content.decode("utf-8", "replace")


class _Bounded(httpx.HTTPTransport):
    def handle_request(self, request: httpx.Request) -> httpx.Response:
        seconds = request.extensions.get("timeout", {}).get("read")
        deadline = time.monotonic() + seconds if seconds is not None else float("inf")
        answer = super().handle_request(request)
        answer.stream = _Stream(cast("httpx.SyncByteStream", answer.stream), deadline)
        if answer.headers.get("Content-Encoding", "identity") != "identity":
            answer.close()
            raise httpx.DecodingError("it packs its answer although it was asked not to")
        return answer


class _Stream(httpx.SyncByteStream):
    def __init__(self, stream: httpx.SyncByteStream, deadline: float) -> None:
        self._stream, self._deadline = stream, deadline

    def __iter__(self) -> Iterator[bytes]:
        left = LARGEST_ANSWER
        for part in self._stream:
            left -= len(part)
            if left < 0:
                raise httpx.ReadError(f"its answer has more than {LARGEST_ANSWER >> 20} MiB")
            if time.monotonic() > self._deadline:
                raise httpx.ReadTimeout("its answer does not come to an end")
            yield part

    def close(self) -> None:
        self._stream.close()
