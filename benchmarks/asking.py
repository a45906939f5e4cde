"""What the benchmarks of a running engine ask it: prompts that it has never seen, for answers as long as they say."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import httpx

VOCABULARY = 150_000  # tokens: Qwen 2 and 3 have a few more that are ordinary ones
FIRST = 10  # the lowest are special ones in other vocabularies


def new_prompt(vocabulary: int, tokens: int) -> list[int]:
    return random.choices(range(FIRST, vocabulary), k=tokens)


def request(ids: list[int], answer: int, *, stream: bool = False) -> dict[str, Any]:
    """The body of a /generate of exactly ``answer`` tokens."""
    sampling = {"temperature": 0, "max_new_tokens": answer, "ignore_eos": True}
    return {"input_ids": ids, "stream": stream, "sampling_params": sampling}


def ask(engine: httpx.Client, ids: list[int], answer: int) -> int:
    """How many of these tokens the engine had cached. Raises httpx.HTTPError."""
    reply = engine.post("/generate", json=request(ids, answer)).raise_for_status()
    return int(reply.json()["meta_info"]["cached_tokens"])
