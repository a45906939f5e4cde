"""Asks a running engine as a client would. (The lab has its own client; tests of the lab need another witness.)"""

from __future__ import annotations

import random
from dataclasses import dataclass, field

import httpx

from hicache_proof.demo.engine import Engine

Headers = dict[str, str]


@dataclass(frozen=True, slots=True)
class Answer:
    tokens: list[int]
    logprobs: list[float]
    prompt_tokens: int
    cached_tokens: int
    request_id: str
    by_tier: dict[str, int] = field(default_factory=dict)
    """Cached tokens by source, as the engine's reply has them; empty where it has none."""


def prompt(name: str, tokens: int = 300) -> list[int]:
    """Token ids that differ from the first one on between names, and are the same for a name."""
    chance = random.Random(name)
    return [chance.randrange(3, 500) for _ in range(tokens)]


def ask(
    engine: Engine,
    ids: list[int],
    tokens: int = 8,
    request_id: str | None = None,
    headers: dict[str, str] | None = None,
) -> Answer:
    body = {
        "input_ids": ids,
        "sampling_params": {"temperature": 0, "max_new_tokens": tokens, "ignore_eos": True},
        "return_logprob": True,
    }
    if request_id is not None:
        body["rid"] = request_id
    reply = httpx.post(f"{engine.url}/generate", json=body, headers=headers, timeout=60, trust_env=False)
    reply.raise_for_status()
    meta = reply.json()["meta_info"]
    details = meta.get("cached_tokens_details") or {}
    return Answer(
        tokens=[token for _, token, _ in meta["output_token_logprobs"]],
        logprobs=[logprob for logprob, _, _ in meta["output_token_logprobs"]],
        prompt_tokens=meta["prompt_tokens"],
        cached_tokens=meta["cached_tokens"],
        request_id=meta["id"],
        by_tier={tier: count for tier, count in details.items() if isinstance(count, int)},
    )


def flush(engine: Engine) -> None:
    """Empty every tier; tests that share an engine begin with it."""
    httpx.post(f"{engine.url}/flush_cache", timeout=30, trust_env=False).raise_for_status()


def evict(engine: Engine, salt: str, tokens: int = 300) -> None:
    """Push everything out of L1 with prompts that nobody else asks."""
    for index in range(engine.spec.max_total_tokens // tokens + 1):
        ask(engine, prompt(f"{salt} {index}", tokens), tokens=1)


def distance(one: Answer, other: Answer) -> float:
    """Largest difference of log-probability between two answers to the same prompt."""
    return max(abs(a - b) for a, b in zip(one.logprobs, other.logprobs, strict=True))
