"""One GET of an engine: a body, or the reason why there is none."""

from __future__ import annotations

import asyncio
import errno
from dataclasses import dataclass

import aiohttp

from hicache_exporter.sources.bearer import Bearer, TokenError

LARGEST_BODY = 16 * 1024 * 1024
"""Bytes after decompression: a text of 8 ranks has about 1 MB."""
ACCEPT = "text/plain;version=0.0.4;q=1,application/openmetrics-text;version=1.0.0;q=0.5,*/*;q=0.1"
"""Plain text first: asked for OpenMetrics, prometheus-client renames what has a colon."""


KEEP_ALIVE = 4.0
"""Seconds; SGLang's front end closes an idle connection after five."""


def engine_session() -> aiohttp.ClientSession:
    """A session in which no engine waits for another's connection, and no cookie is kept."""
    connector = aiohttp.TCPConnector(limit=0, keepalive_timeout=KEEP_ALIVE)
    return aiohttp.ClientSession(connector=connector, cookie_jar=aiohttp.DummyCookieJar())


class UnreadableError(Exception):
    """``reason`` is one of engine_reading.REASONS. Carries nothing of the answer: it may hold secrets."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


@dataclass(frozen=True, slots=True)
class Body:
    content: bytes
    openmetrics: bool


async def get(session: aiohttp.ClientSession, url: str, bearer: Bearer, seconds: float) -> Body:
    """Follows no redirect: the token is for this address, and a login page is no metrics. Raises UnreadableError."""
    try:
        headers = {"Accept": ACCEPT, **bearer.headers()}
        timeout = aiohttp.ClientTimeout(total=seconds)
        async with session.get(url, headers=headers, timeout=timeout, allow_redirects=False) as answer:
            _refuse_status(answer.status)
            content = await _read(answer)
            return Body(content, "openmetrics-text" in answer.headers.get("Content-Type", "").lower())
    except TokenError:
        raise UnreadableError("no_token") from None
    except (aiohttp.ClientError, OSError) as error:
        raise UnreadableError(_reason(error)) from None


def _refuse_status(status: int) -> None:
    if status == 200:
        return
    named = {401: "unauthorized", 403: "unauthorized", 404: "not_found"}
    by_class = {3: "redirect", 4: "http_4xx", 5: "http_5xx"}
    raise UnreadableError(named.get(status) or by_class.get(status // 100, "http_other"))


async def _read(answer: aiohttp.ClientResponse) -> bytes:
    content = bytearray()
    async for chunk in answer.content.iter_any():
        content += chunk
        if len(content) > LARGEST_BODY:
            raise UnreadableError("too_large")
    return bytes(content)


def _reason(error: aiohttp.ClientError | OSError) -> str:
    if isinstance(error, (asyncio.TimeoutError, TimeoutError)):
        return "timeout"
    if isinstance(error, (aiohttp.ClientConnectorCertificateError, aiohttp.ClientSSLError)):
        return "tls"
    if isinstance(error, aiohttp.ClientConnectorError):
        return "refused" if error.os_error.errno == errno.ECONNREFUSED else "unreachable"
    if isinstance(error, aiohttp.ClientPayloadError):
        cause = error.__cause__
        return "decode" if isinstance(cause, aiohttp.http_exceptions.ContentEncodingError) else "truncated"
    return "broken"
