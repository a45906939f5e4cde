"""What an engine is asked by a benchmark, and what of its answer counts."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import httpx
import pytest

sys.path.append(str(Path(__file__).parents[2] / "benchmarks"))

import asking


def test_a_prompt_is_of_ordinary_tokens_and_no_two_are_alike() -> None:
    first, second = (asking.new_prompt(500, 300) for _ in range(2))
    assert len(first) == len(second) == 300
    assert first[:8] != second[:8]
    assert set(first + second) <= set(range(asking.FIRST, 500))


@pytest.fixture
def engine() -> httpx.Client:
    """Has all but one token cached, and fails where the answer is not to be exactly of 7 tokens."""

    def answer(request: httpx.Request) -> httpx.Response:
        asked = json.loads(request.content)
        fixed = asked["sampling_params"]["ignore_eos"] and asked["sampling_params"]["max_new_tokens"] == 7
        return httpx.Response(
            200 if fixed and request.url.path == "/generate" else 500,
            json={"meta_info": {"cached_tokens": len(asked["input_ids"]) - 1}},
        )

    return httpx.Client(base_url="http://engine", transport=httpx.MockTransport(answer))


def test_how_much_of_a_prompt_was_cached(engine: httpx.Client) -> None:
    assert asking.ask(engine, list(range(300)), 7) == 299


def test_an_engine_that_fails_is_no_miss(engine: httpx.Client) -> None:
    with pytest.raises(httpx.HTTPStatusError):
        asking.ask(engine, list(range(300)), 8)
