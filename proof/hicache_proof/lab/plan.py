"""How large the experiment must be on this engine, with the arithmetic shown. Pure.

Everything follows from gauges: the eviction load is more than L1 holds, and all that the run writes fits into the free
room of L2, so that the prefix leaves the one and stays in the other.
"""

from __future__ import annotations

import math

import msgspec

from hicache_proof.lab.engine import EngineFacts, Reading
from hicache_proof.lab.errors import CannotRunError

QUESTION_TOKENS = 16
OUTPUT_TOKENS = 8
REPETITIONS = 3
LONGEST_DEFAULT_PREFIX = 32768
OVERSHOOT = 0.05
"""By how much the eviction load exceeds L1: pages are rounded up, and a request may hold some while it is served."""
SAFE_SHARE = 0.95
"""How much of the room a default prefix takes: the engine's own health checks write to the cache as well."""
FEWEST_PAGES = 2
FEWEST_TOKENS = 32
"""SGLang leaves tiny load-backs undone (below 10 tokens by default)."""


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    prefix_tokens: int
    question_tokens: int
    output_tokens: int
    repetitions: int
    filler_tokens: int
    fillers: int
    written_tokens: int
    """All that the run may write to L2."""
    arithmetic: tuple[str, ...]
    warnings: tuple[str, ...]

    @property
    def prompt_tokens(self) -> int:
        return self.prefix_tokens + self.question_tokens

    @property
    def eviction_tokens(self) -> int:
        return self.fillers * self.filler_tokens


def make(
    facts: EngineFacts, reading: Reading, *, prefix_tokens: int | None, repetitions: int, evict: bool = True
) -> Plan:
    """Raises CannotRunError with one sentence if this engine cannot hold the experiment."""
    device, host, used = _capacities(facts, reading)
    page, free = facts.page_size, host - used
    filler = max(page, _down(min(_longest_prompt(facts, device), device // 4), page))
    fillers = math.ceil(device * (1 + OVERSHOOT) / filler) if evict else 0
    # the warm-up and every repetition write two prefixes (the second one is the forced miss) and what follows them
    prefixes = 2 * (repetitions + 1)
    # left in L1 on purpose, all of it must fit there: else one prefix would push another one out
    room = int(SAFE_SHARE * (free - fillers * filler if evict else min(free, device))) // prefixes - _beside_prefix(
        page
    )
    prefix, why = _prefix(facts, device, room, prefix_tokens)
    written = prefixes * (prefix + _beside_prefix(page)) + fillers * filler
    if written > free:
        raise CannotRunError(
            f"the run would write up to {written:,} tokens to L2, but only {free:,} of its {host:,} are free: "
            "fewer would leave the prefix in L1, more would push it out of L2; empty the cache with --flush, "
            "take a shorter --prefix-tokens or fewer --repetitions, or start the engine with a larger --hicache-size"
        )
    return Plan(
        prefix_tokens=prefix,
        question_tokens=QUESTION_TOKENS,
        output_tokens=OUTPUT_TOKENS,
        repetitions=repetitions,
        filler_tokens=filler,
        fillers=fillers,
        written_tokens=written,
        arithmetic=(
            f"L1 holds {device:,} tokens, L2 {host:,}, of which {used:,} are used: {free:,} free (the engine's gauges)",
            f"prefix: {prefix:,} tokens = {prefix // page:,} pages of {page}, {why}",
            f"eviction load: {fillers} prompts of {filler:,} uncached tokens = {fillers * filler:,}, "
            + (f"more than the {device:,} of L1" if evict else "skipped on request"),
            f"written to L2 at most: {prefixes} x {prefix + _beside_prefix(page):,} + {fillers * filler:,} = "
            f"{written:,}, no more than the {free:,} free",
        ),
        warnings=_warnings(facts, prefix, device, host),
    )


def for_control(plan: Plan, facts: EngineFacts, reading: Reading) -> Plan:
    """The same load on the control engine: the same prompts, and enough of them to empty its own L1."""
    if reading.device_capacity is None:
        raise CannotRunError(
            f"the control engine {facts.url} reports no max_total_num_tokens; start it with --enable-metrics"
        )
    fillers = math.ceil(int(reading.device_capacity) * (1 + OVERSHOOT) / plan.filler_tokens) if plan.fillers else 0
    return msgspec.structs.replace(plan, fillers=max(fillers, plan.fillers))


def _capacities(facts: EngineFacts, reading: Reading) -> tuple[int, int, int]:
    if not facts.hicache:
        raise CannotRunError(f"HiCache is off on {facts.url}; start the engine with --enable-hierarchical-cache")
    if reading.device_capacity is None:
        raise CannotRunError(
            f"{facts.url} does not report max_total_num_tokens; start the engine with --enable-metrics"
        )
    if reading.host_capacity is None or reading.host_used is None:
        raise CannotRunError(
            f"{facts.url} does not report the size and use of its host pool (hicache_host_total_tokens, "
            "hicache_host_used_tokens; SGLang 0.5.10 and later do); run the sidecar, which knows the size, and take "
            "--flush, which makes the pool empty"
        )
    return int(reading.device_capacity), int(reading.host_capacity), int(reading.host_used)


def _beside_prefix(page: int) -> int:
    """Tokens written after a prefix: two questions and their answers, each rounded up to pages."""
    return 2 * (_up(QUESTION_TOKENS + OUTPUT_TOKENS, page) + page)


def _prefix(facts: EngineFacts, device: int, room: int, wanted: int | None) -> tuple[int, str]:
    """Prefix length in tokens, a multiple of the page size, and where it comes from."""
    page = facts.page_size
    fewest = max(FEWEST_PAGES * page, FEWEST_TOKENS)
    if wanted is not None:
        ceiling = _longest_for_context(facts, device) - QUESTION_TOKENS
        if wanted < fewest:
            raise CannotRunError(
                f"a prefix of {wanted} tokens is too short to be read from L2: with pages of {page} tokens take "
                f"--prefix-tokens {fewest} or more"
            )
        if wanted > ceiling:
            raise CannotRunError(
                f"a prefix of {wanted:,} tokens is too long: half of L1 and the engine's context leave room for "
                f"--prefix-tokens {_down(ceiling, page):,} at most"
            )
        return _down(wanted, page), "as asked for, in whole pages"
    longest = min(_longest_prompt(facts, device) - QUESTION_TOKENS, LONGEST_DEFAULT_PREFIX)
    prefix = _down(min(longest, max(room, fewest)), page)
    if prefix < fewest:
        raise CannotRunError(
            f"this engine is too small for the experiment: it allows a prefix of {prefix} tokens, "
            f"and with pages of {page} tokens {fewest} are needed"
        )
    reason = "half of L1, one prefill chunk and the context allow" if longest <= room else "the free room allows"
    return prefix, f"the longest that {reason}"


def _longest_prompt(facts: EngineFacts, device: int) -> int:
    """A prompt longer than the chunked prefill size may never be backed up under write-through."""
    chunk = facts.chunked_prefill_tokens
    longest = _longest_for_context(facts, device)
    return longest if chunk is None else min(longest, chunk - OUTPUT_TOKENS)


def _longest_for_context(facts: EngineFacts, device: int) -> int:
    longest = device // 2
    if facts.max_prompt_tokens is not None:
        longest = min(longest, facts.max_prompt_tokens)
    return longest - OUTPUT_TOKENS


def _warnings(facts: EngineFacts, prefix: int, device: int, host: int) -> tuple[str, ...]:
    found = []
    chunk = facts.chunked_prefill_tokens
    if chunk is not None and prefix + QUESTION_TOKENS > chunk:
        found.append(
            f"the prompt is longer than the chunked prefill size of {chunk:,}: "
            "under write-through such a prompt may never be backed up"
        )
    if host < device:
        found.append(
            f"L2 ({host:,} tokens) is smaller than L1 ({device:,}): backups compete for room, "
            "and most of what leaves L1 is lost"
        )
    if facts.eviction_policy not in (None, "lru"):
        found.append(
            f"L1 evicts by {facts.eviction_policy}, not by least recent use: "
            "the eviction load may leave the prefix where it is"
        )
    if facts.tokenizer_workers > 1:
        found.append(
            f"{facts.tokenizer_workers} tokenizer workers: the engine may lose the split of cached tokens by tier"
        )
    return tuple(found)


def _down(tokens: int, page: int) -> int:
    return tokens // page * page


def _up(tokens: int, page: int) -> int:
    return -(-tokens // page) * page
