"""What an engine, or something in its place, may answer: one sentence for each."""

from __future__ import annotations

import httpx
import pytest

from hicache_proof.lab.client import EngineClient
from hicache_proof.lab.errors import CannotRunError

INFO = {"version": "0.5.23", "page_size": 64, "tp_size": 1, "model_path": "m"}


def client(body: bytes) -> EngineClient:
    def answer(request: httpx.Request) -> httpx.Response:
        return (
            httpx.Response(200, json=INFO) if request.url.path == "/server_info" else httpx.Response(200, content=body)
        )

    return EngineClient("http://engine", httpx.Client(transport=httpx.MockTransport(answer)))


@pytest.mark.parametrize(
    "body", [b"data: {broken", b"data: {}", b"data: " + b'{"a":' * 100_000, b'data: {"meta_info":7}']
)
def test_a_stream_of_something_else_is_said_so(body: bytes) -> None:
    with pytest.raises(CannotRunError, match="/generate does not answer as SGLang does"):
        client(body + b"\n\n").generate([1], 1, "r")


@pytest.mark.parametrize("body", [b"", b"[]", b"{}", b'{"tokens": 5}', b'{"tokens": ["x"]}', b'{"tokens": [1e400]}'])
def test_tokens_that_are_none_are_said_so(body: bytes) -> None:
    with pytest.raises(CannotRunError, match="/tokenize does not answer as SGLang does"):
        client(body).tokens_of("text")
