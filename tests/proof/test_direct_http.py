"""Answers that never end, are larger than anything an engine says, or are not what they claim."""

from __future__ import annotations

import gzip
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler

import httpx
import pytest

from hicache_proof import direct_http
from hicache_proof.direct_http import direct_client, text_of

from .served import served


@contextmanager
def serving(parts: Iterator[bytes], **headers: str) -> Iterator[str]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            for name, value in headers.items():
                self.send_header(name.replace("_", "-"), value)
            self.end_headers()
            try:
                for part in parts:
                    self.wfile.write(part)
            except OSError:
                pass

        def log_message(self, *_: object) -> None:
            pass

    with served(Handler) as url:
        yield url


def ask(url: str, seconds: float = 5.0) -> httpx.Response:
    with direct_client(None, answer_seconds=seconds, connect_seconds=5.0) as http:
        return http.get(url)


def test_an_answer_without_an_end_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(direct_http, "LARGEST_ANSWER", 1 << 20)
    with serving(b"x" * 65536 for _ in range(64)) as url, pytest.raises(httpx.ReadError, match="more than 1 MiB"):
        ask(url)


def test_the_time_is_for_the_whole_answer() -> None:
    def slowly() -> Iterator[bytes]:
        for _ in range(100):
            yield b" "
            time.sleep(0.02)

    with serving(slowly()) as url, pytest.raises(httpx.ReadTimeout, match="does not come to an end"):
        ask(url, 0.2)


def test_a_packed_answer_that_nobody_asked_for_is_not_unpacked() -> None:
    packed = serving(iter([gzip.compress(bytes(1 << 20))]), Content_Encoding="gzip")
    with packed as url, pytest.raises(httpx.DecodingError, match="packs its answer"):
        ask(url)


@pytest.mark.parametrize("charset", ["utf-16", "idna", "nonsense", "utf-8"])
def test_text_can_be_shown_whatever_it_claims_to_be(charset: str) -> None:
    with serving(iter([b"caf\xe9"]), Content_Type=f"text/plain; charset={charset}") as url:
        assert text_of(ask(url)) == "caf\ufffd"
