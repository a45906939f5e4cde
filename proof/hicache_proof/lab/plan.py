"""How large the experiment must be on this engine, with the arithmetic shown. Pure.

Everything follows from gauges: the eviction load is more than L1 holds, and all that the run writes fits into the free
room of L2, so that the prefix leaves the one and stays in the other.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import msgspec

from hicache_proof.lab.engine import EngineFacts, Reading
from hicache_proof.lab.errors import CannotRunError
from hicache_proof.lab.sizes import (
    OUTPUT_TOKENS,
    PREFETCH_TOKENS,
    QUESTION_TOKENS,
    SAFE_SHARE,
    beside_prefix,
    down,
    fewest,
    longest_for_context,
    longest_prompt,
)

REPETITIONS = 3
LONGEST_DEFAULT_PREFIX = 32768
OVERSHOOT = 0.05
"""By how much the eviction load exceeds L1: pages are rounded up, and a request may hold some while it is served."""
MARKER_TOKENS = 256
"""What the questions for the markers write beside their prefix: three of a few words, and their answers.
The prefix itself is one of the warm-up's."""


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
    storage_fillers: int = 0
    """To push everything out of L2 too, for series E; 0: not needed."""

    @property
    def prompt_tokens(self) -> int:
        return self.prefix_tokens + self.question_tokens

    @property
    def eviction_tokens(self) -> int:
        return self.fillers * self.filler_tokens


def make(
    facts: EngineFacts,
    reading: Reading,
    *,
    prefix_tokens: int | None,
    repetitions: int,
    evict: bool = True,
    storage: bool = False,
    after_flush: bool = False,
) -> Plan:
    """Raises CannotRunError with one sentence if this engine cannot hold the experiment.

    ``after_flush``: the reading is not the engine's, but what a flush will leave.
    """
    tiers, page = _capacities(facts, reading), facts.page_size
    filler = max(page, down(min(longest_prompt(facts, tiers.device), tiers.device // 4), page))
    fillers = math.ceil(tiers.device * (1 + OVERSHOOT) / filler) if evict else 0
    limit, prefixes = tiers.limit(evict=evict), _prefixes(repetitions)
    room = int(SAFE_SHARE * (limit - fillers * filler)) - MARKER_TOKENS
    prefix, why = _prefix(facts, tiers.device, room // prefixes - beside_prefix(page), prefix_tokens)
    if storage:
        _refuse_short_prefetch(prefix)
    written = prefixes * (prefix + beside_prefix(page)) + MARKER_TOKENS + fillers * filler
    _refuse_too_much(written, limit, tiers.host, evict=evict)
    plan = Plan(
        prefix_tokens=prefix,
        question_tokens=QUESTION_TOKENS,
        output_tokens=OUTPUT_TOKENS,
        repetitions=repetitions,
        filler_tokens=filler,
        fillers=fillers,
        storage_fillers=math.ceil((tiers.host + tiers.device) * (1 + OVERSHOOT) / filler) if storage else 0,
        written_tokens=written,
        arithmetic=(),
        warnings=_warnings(facts, prefix, tiers.device, tiers.host),
    )
    return msgspec.structs.replace(plan, arithmetic=_arithmetic(plan, tiers, page, why, after_flush=after_flush))


def _prefixes(repetitions: int) -> int:
    """The warm-up and every repetition write two (the second one is the forced miss) and what follows them."""
    return 2 * (repetitions + 1)


def _arithmetic(plan: Plan, tiers: _Tiers, page: int, why: str, *, after_flush: bool) -> tuple[str, ...]:
    """``why``: where the length of the prefix comes from."""
    prefix, filler, load, evict = plan.prefix_tokens, plan.filler_tokens, plan.eviction_tokens, bool(plan.fillers)
    room = "free" if evict else "that both L1 and L2 hold; what was there may leave them"
    return (
        f"L1 holds {tiers.device:,} tokens, L2 {tiers.host:,}, of which {tiers.used:,} are used"
        f"{' after the flush' if after_flush else ''}: {tiers.free:,} free (the engine's gauges)",
        f"prefix: {prefix:,} tokens = {prefix // page:,} pages of {page}, {why}",
        f"eviction load: {plan.fillers} prompts of {filler:,} uncached tokens = {load:,}, more than the "
        f"{tiers.device:,} of L1"
        if evict
        else "eviction load: none, skipped on request",
        f"written to L2 at most: {_prefixes(plan.repetitions)} prefixes (two for the warm-up, two a repetition) "
        f"of {prefix + beside_prefix(page):,} tokens with their questions and answers + {MARKER_TOKENS} for the "
        f"markers' questions + {load:,} of the eviction load = {plan.written_tokens:,}, no more than the "
        f"{tiers.limit(evict=evict):,} {room}",
        *_storage_lines(plan.storage_fillers, filler, tiers.host + tiers.device),
    )


def for_control(plan: Plan, facts: EngineFacts, reading: Reading) -> Plan:
    """The same load on the control engine: the same prompts, and enough of them to empty its own L1."""
    if reading.device_capacity is None:
        raise CannotRunError(
            f"the control engine {facts.url} reports no max_total_num_tokens; start it with --enable-metrics"
        )
    fillers = math.ceil(int(reading.device_capacity) * (1 + OVERSHOOT) / plan.filler_tokens) if plan.fillers else 0
    return msgspec.structs.replace(plan, fillers=max(fillers, plan.fillers))


def _refuse_too_much(written: int, limit: int, host: int, *, evict: bool) -> None:
    if written <= limit:
        return
    if not evict:
        raise CannotRunError(
            f"the run would write up to {written:,} tokens, and without the eviction load all of them must stay in "
            f"L1: L1 and L2 both hold {limit:,}; take a shorter --prefix-tokens or fewer --repetitions"
        )
    raise CannotRunError(
        f"the run would write up to {written:,} tokens to L2, but only {limit:,} of its {host:,} are free: "
        "fewer would leave the prefix in L1, more would push it out of L2; empty the cache with --flush, "
        "take a shorter --prefix-tokens or fewer --repetitions, or start the engine with a larger --hicache-size"
    )


def _refuse_short_prefetch(prefix: int) -> None:
    if prefix < PREFETCH_TOKENS:
        raise CannotRunError(
            f"a prefix of {prefix:,} tokens is too short for series E: SGLang leaves prefetches of fewer than "
            f"{PREFETCH_TOKENS} tokens undone; take a longer --prefix-tokens, fewer --repetitions or a larger L2"
        )


def _storage_lines(fillers: int, filler: int, both: int) -> tuple[str, ...]:
    if not fillers:
        return ()
    return (
        f"to empty L2 as well, before E: {fillers} prompts of {filler:,} = {fillers * filler:,} tokens, more than the "
        f"{both:,} of L1 and L2 together (with --flush and the prefetch policy wait_complete: a flush instead)",
    )


class _Tiers(NamedTuple):
    """Tokens that L1 and L2 hold, and those of L2 that are used."""

    device: int
    host: int
    used: int

    @property
    def free(self) -> int:
        return self.host - self.used

    def limit(self, *, evict: bool) -> int:
        """What may be written. Left in L1 on purpose, all must fit there: else one prefix would push another out."""
        return self.free if evict else min(self.device, self.host)


def _capacities(facts: EngineFacts, reading: Reading) -> _Tiers:
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
    return _Tiers(int(reading.device_capacity), int(reading.host_capacity), int(reading.host_used))


def _prefix(facts: EngineFacts, device: int, room: int, wanted: int | None) -> tuple[int, str]:
    """Prefix length in tokens, a multiple of the page size, and where it comes from."""
    page = facts.page_size
    shortest = fewest(page)
    if wanted is not None:
        ceiling = longest_for_context(facts, device) - QUESTION_TOKENS
        if wanted < shortest:
            raise CannotRunError(
                f"a prefix of {wanted} tokens is too short to be read from L2: with pages of {page} tokens take "
                f"--prefix-tokens {shortest} or more"
            )
        if wanted > ceiling:
            raise CannotRunError(
                f"a prefix of {wanted:,} tokens is too long: half of L1 and the engine's context leave room for "
                f"--prefix-tokens {down(ceiling, page):,} at most"
            )
        return down(wanted, page), "as asked for, in whole pages"
    longest = min(longest_prompt(facts, device) - QUESTION_TOKENS, LONGEST_DEFAULT_PREFIX)
    prefix = down(min(longest, max(room, shortest)), page)
    if prefix < shortest:
        raise CannotRunError(
            f"this engine is too small for the experiment: it allows a prefix of {prefix} tokens, "
            f"and with pages of {page} tokens {shortest} are needed"
        )
    reason = "half of L1, one prefill chunk and the context allow" if longest <= room else "the free room allows"
    return prefix, f"the longest that {reason}"


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
