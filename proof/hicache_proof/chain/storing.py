"""The links that fill L2: backup from L1, eviction from L1, and whether L2 keeps what it got."""

from __future__ import annotations

from collections.abc import Iterator

from hicache_proof.chain.facts import ChainInput, Counted
from hicache_proof.chain.findings import Finding, found
from hicache_proof.chain.stage import Stage, examined, tokens

MOST = 0.9


def backed_up(counted: Counted | None) -> float | None:
    """Tokens that reached L2; engines before 0.5.18 count no backups, but their host pool fills."""
    if counted is None:
        return None
    return counted.backup_tokens if counted.backup_tokens is not None else counted.host_used


def backup(facts: ChainInput) -> Stage:
    counted, stored = facts.counted, backed_up(facts.counted)
    says = f"{tokens(stored)} tokens backed up to L2"
    findings = [*_of_sizes(facts), *_of_backup(facts)]
    if counted is None or stored is None:
        return examined("backup", "unknown", says, findings)
    return examined("backup", "ok" if stored else "idle", says, findings)


def _of_sizes(facts: ChainInput) -> Iterator[Finding]:
    counted, recorded = facts.counted, facts.recorded
    if counted is not None and 0 < (counted.host_capacity or 0) < (counted.device_capacity or 0):
        sizes = f"L2 holds {tokens(counted.host_capacity)} tokens, L1 {tokens(counted.device_capacity)}"
        yield found("host-smaller-than-device", sizes)
    if recorded is not None and recorded.backups_refused:
        yield found("backups-refused", f"{recorded.backups_refused:.0f} backups refused for lack of room in L2")


def _of_backup(facts: ChainInput) -> Iterator[Finding]:
    counted, configuration = facts.counted, facts.configuration
    stored = backed_up(counted)
    if counted is None or stored is None or not counted.prompt_tokens or _nothing_new(facts):
        return
    policy = configuration.write_policy if configuration is not None else None
    over = _over_chunk(facts)
    if stored > 0:
        if over and _falls_short(counted, stored):
            yield found("prompts-over-chunk", over)
    elif over:
        yield found("prompt-over-chunk", f"nothing was backed up; {over}")
    elif policy == "write_back" and not counted.evicted_tokens:
        return  # it backs up at eviction, and nothing has been evicted yet
    elif policy in ("write_back", "write_through_selective"):
        prompts = f"of {tokens(counted.prompt_tokens)} prompt tokens"
        yield found("policy-never-backed-up", f"policy {policy} has backed up nothing {prompts}")
    else:
        yield found("nothing-backed-up", f"policy {policy or '(not told)'} has backed up nothing")


def _nothing_new(facts: ChainInput) -> bool:
    """In a window of hits alone each prompt leaves less than a page to compute, and there is nothing to back up."""
    counted, configuration = facts.counted, facts.configuration
    if facts.watched_seconds is None or counted is None or not counted.requests:
        return False
    page = (configuration.page_size if configuration is not None else None) or 1
    return _computed(counted) <= counted.requests * page


def _computed(counted: Counted) -> float:
    cached = (counted.cached_device, counted.cached_host, counted.cached_storage, counted.cached_unattributed)
    return (counted.prompt_tokens or 0) - sum(n or 0 for n in cached)


def _falls_short(counted: Counted, stored: float) -> bool:
    """Much of what was computed has not reached L2. A full host pool that counts no backups tells nothing."""
    full = counted.backup_tokens is None and stored >= MOST * (counted.host_capacity or 0)
    return not full and stored < MOST * _computed(counted)


def _over_chunk(facts: ChainInput) -> str | None:
    counted, configuration = facts.counted, facts.configuration
    chunk = configuration.chunked_prefill_tokens if configuration is not None else None
    if counted is None or chunk is None or chunk <= 0 or not counted.requests or not counted.prompt_tokens:
        return None
    mean = counted.prompt_tokens / counted.requests
    if mean <= chunk:
        return None
    return f"the mean prompt has {tokens(mean)} tokens, the chunked prefill size is {tokens(chunk)}"


def eviction(facts: ChainInput) -> Stage:
    evicted = facts.counted.evicted_tokens if facts.counted is not None else None
    if evicted is None and facts.recorded is not None and facts.recorded.demoted_tokens is not None:
        evicted = facts.recorded.demoted_tokens + (facts.recorded.dropped_tokens or 0)
    says = f"{tokens(evicted)} tokens left L1"
    if evicted is None:
        return examined("eviction", "unknown", says)
    if evicted == 0:
        return examined("eviction", "idle", says, [_nothing_left(facts)])
    return examined("eviction", "ok", says, _of_eviction(facts))


def _nothing_left(facts: ChainInput) -> Finding:
    """Only counters since the engine's start can say "yet"; a recorder may have come later."""
    counted, seconds = facts.counted, facts.watched_seconds
    ever = counted.evicted_ever if counted is not None else None
    if ever == 0:
        return found("l1-never-full", "nothing has left L1 yet")
    window = f"in these {seconds:.0f} s" if seconds is not None else "since its recorder is followed"
    before = f"; {tokens(ever)} tokens had left it before" if ever else ""
    return found("l1-kept-meanwhile", f"nothing left L1 {window}{before}")


def _of_eviction(facts: ChainInput) -> Iterator[Finding]:
    recorded = facts.recorded
    if recorded is None or recorded.demoted_tokens is None or recorded.dropped_tokens is None:
        return
    if recorded.dropped_tokens > recorded.demoted_tokens:
        left = (
            f"{tokens(recorded.dropped_tokens)} tokens left L1 without a copy, {tokens(recorded.demoted_tokens)} with"
        )
        yield found("evicted-without-copy", left)


def occupancy(facts: ChainInput) -> Stage:
    counted = facts.counted
    if counted is None or counted.host_capacity is None or counted.host_used is None:
        return examined("occupancy", "unknown", "fill of L2 not known", _of_occupancy(facts))
    says = f"{tokens(counted.host_used)} of {tokens(counted.host_capacity)} tokens in L2"
    says += "".join(f", {tokens(pool.used)} of {tokens(pool.capacity)} in pool {pool.name}" for pool in counted.pools)
    return examined("occupancy", "ok" if counted.host_used else "idle", says, _of_occupancy(facts))


def _of_occupancy(facts: ChainInput) -> Iterator[Finding]:
    counted = facts.counted
    lost = forgotten_by_l2(facts)
    if lost:
        yield found("l2-evicted-first", lost)
    if counted is None:
        return
    if counted.backup_tokens and counted.host_used == 0:
        yield found("l2-empty", f"{tokens(counted.backup_tokens)} tokens were backed up and L2 is empty")
    for pool in counted.pools:
        if pool.capacity and not pool.used and counted.host_used:
            yield found("pool-empty", f"pool {pool.name} is empty while L2 holds {tokens(counted.host_used)} KV tokens")


def forgotten_by_l2(facts: ChainInput) -> str | None:
    """L2 has thrown prefixes away and none was ever matched: it is too small for the time between two uses."""
    counted, recorded = facts.counted, facts.recorded
    if counted is not None and counted.cached_device == 0:
        return None  # nothing was reused from L1 either: such a load asks for no prefix twice
    if facts.probed_alone or (counted is not None and (counted.load_back_tokens or counted.cached_host)):
        return None
    if recorded is not None and recorded.matched:
        return None
    if recorded is not None and recorded.host_evicted_tokens and recorded.promised_tokens == 0:
        return f"{tokens(recorded.host_evicted_tokens)} tokens left L2 before any was asked for again"
    by_recorder = recorded is not None and recorded.promised_tokens is not None
    if counted is None or by_recorder or counted.backup_tokens is None or not counted.host_capacity:
        return None
    if counted.backup_tokens > counted.host_capacity:
        written, room = tokens(counted.backup_tokens), tokens(counted.host_capacity)
        return f"{written} tokens were backed up into room for {room}, and none was read again"
    return None
