"""Sizes that follow from the page size, the context and L1. Pure."""

from __future__ import annotations

from hicache_proof.lab.engine import EngineFacts

QUESTION_TOKENS = 16
OUTPUT_TOKENS = 8
SAFE_SHARE = 0.95
"""How much of the room a default prefix takes: the engine's own health checks write to the cache as well."""
FEWEST_PAGES = 2
FEWEST_TOKENS = 32
"""SGLang leaves tiny load-backs undone (below 10 tokens by default)."""
PREFETCH_TOKENS = 256
"""SGLang leaves shorter prefetches from L3 undone, unless its backend's extra config says otherwise."""


def fewest(page: int) -> int:
    """Tokens of the shortest prefix that is read from L2."""
    return max(FEWEST_PAGES * page, FEWEST_TOKENS)


def beside_prefix(page: int) -> int:
    """Tokens written after a prefix: two questions and their answers, each rounded up to pages."""
    return 2 * (up(QUESTION_TOKENS + OUTPUT_TOKENS, page) + page)


def longest_prompt(facts: EngineFacts, device: int) -> int:
    """A prompt longer than the chunked prefill size may never be backed up under write-through."""
    chunk = facts.chunked_prefill_tokens
    longest = longest_for_context(facts, device)
    return longest if chunk is None else min(longest, chunk - OUTPUT_TOKENS)


def longest_for_context(facts: EngineFacts, device: int) -> int:
    longest = device // 2
    if facts.max_prompt_tokens is not None:
        longest = min(longest, facts.max_prompt_tokens)
    return longest - OUTPUT_TOKENS


def down(tokens: int, page: int) -> int:
    return tokens // page * page


def up(tokens: int, page: int) -> int:
    return -(-tokens // page) * page
