"""The demo's model answers out of the rows of its KV cache, wherever they come from.

(That it recalls nothing out of damaged rows: test_lab.py.)
"""

from __future__ import annotations

import random

import httpx
import pytest

from hicache_proof.demo.engine import Engine

from .driver import ask, evict, flush

pytestmark = pytest.mark.engine

TOKENS = 400
QUESTION = "\nThe code of the red door is"


def tokens_of(engine: Engine, text: str) -> list[int]:
    body = {"model": "tiny-qwen2", "prompt": text, "add_special_tokens": False}
    return httpx.post(f"{engine.url}/tokenize", json=body, timeout=30, trust_env=False).json()["tokens"]


def asked_for(engine: Engine, depth: float, code: str) -> list[int]:
    """Noise with the code in it at that depth, and the question for it."""
    noise = random.Random(f"{depth} {code}").choices(
        tokens_of(engine, "abcdefghijklmnop ABCDEF 0123456789.,:;"), k=TOKENS
    )
    sentence, question = tokens_of(engine, f"{QUESTION} {code}.\n"), tokens_of(engine, QUESTION)
    at = int(depth * (TOKENS - len(sentence)))
    return [*noise[:at], *sentence, *noise[at + len(sentence) :], *question]


def recalls(engine: Engine, prompt: list[int], code: str) -> tuple[bool, dict[str, int]]:
    answer = ask(engine, prompt)
    return answer.tokens[:6] == tokens_of(engine, f" {code}."), answer.by_tier


@pytest.mark.parametrize("depth", [0.0, 0.25, 0.5, 0.75, 1.0])
def test_what_stands_at_any_depth_is_recalled_computed_and_from_l1_and_from_l2(engine, depth: float) -> None:
    flush(engine)
    code = str(random.Random(depth).randint(1000, 9999))
    prompt = asked_for(engine, depth, code)
    assert recalls(engine, prompt, code) == (True, {})
    from_l1 = recalls(engine, prompt, code)
    evict(engine, f"recall {depth}")
    from_l2 = recalls(engine, prompt, code)
    cached = len(prompt) - 1
    assert from_l1 == (True, {"device": cached, "host": 0})
    assert from_l2 == (True, {"device": 0, "host": cached})


def test_what_nobody_has_said_is_not_answered(engine) -> None:
    flush(engine)
    prompt = asked_for(engine, 0.5, "4711")
    told = tokens_of(engine, "4711")
    at = next(i for i in range(len(prompt)) if prompt[i : i + 4] == told)
    assert recalls(engine, [*prompt[:at], *tokens_of(engine, "1147"), *prompt[at + 4 :]], "4711") == (False, {})
