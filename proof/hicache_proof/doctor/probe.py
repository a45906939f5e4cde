"""The same prompt sent twice: does the reply's cached_tokens say what the engine's counters say?"""

from __future__ import annotations

import random
import secrets

import httpx

from hicache_proof.chain.facts import Probe
from hicache_proof.lab.client import EngineClient
from hicache_proof.lab.engine import Reading, window
from hicache_proof.lab.guards import finished
from hicache_proof.lab.prompts import Prompts, sample_text, vocabulary

PROMPT_TOKENS = 256
PATIENCE_SECONDS = 10.0


def probe(url: str, http: httpx.Client) -> Probe:
    """Two requests of one token each. Raises CannotRunError."""
    client, salt = EngineClient(url, http), secrets.token_hex(4)
    prompts = Prompts(vocabulary(client.tokens_of(sample_text(random.Random(salt)))), salt)
    prompt = prompts.fresh(PROMPT_TOKENS)
    start = client.read()
    client.generate(prompt, 1, f"doctor-{salt}-1")
    between, _ = client.until(lambda reading: finished(start, reading) > 0, PATIENCE_SECONDS)
    reply = client.generate(prompt, 1, f"doctor-{salt}-2")
    end, _ = client.until(lambda reading: finished(between, reading) > 0, PATIENCE_SECONDS)
    return Probe(
        prompt_tokens=PROMPT_TOKENS,
        reply_cached_tokens=reply.cached_tokens,
        counted_cached_tokens=_counted(between, end),
    )


def _counted(before: Reading, after: Reading) -> float | None:
    """Cached tokens of all tiers; None where other requests finished in the same window."""
    moved = window(before, after)
    if moved.requests != 1:
        return None
    storage = (after.cached_storage or 0) - (before.cached_storage or 0)
    return (moved.cached_device or 0) + (moved.cached_host or 0) + (moved.cached_unattributed or 0) + storage
