"""The links that read L2: the tree matches a stored prefix, the engine loads it, and credits it to L2."""

from __future__ import annotations

from collections.abc import Iterator

from hicache_proof.chain.facts import ChainInput, Configuration, Counted, Probe, Recorded
from hicache_proof.chain.findings import Finding, found
from hicache_proof.chain.stage import Stage, State, examined, tokens
from hicache_proof.chain.storing import backed_up, forgotten_by_l2

SOME = 0.1
"""Share of the promised tokens not loaded that is worth a warning."""
CHANCE = 4
"""Promised tokens a load-back below which prompts have just begun alike (with pages of one token)."""
FACTOR_TOLERANCE = 0.1

_DECLINED = {"below_threshold": "below-threshold", "over_quota": "over-quota", "no_room": "no-room"}


def match(facts: ChainInput) -> Stage:
    promised, matched = _promised(facts), _matched(facts)
    if matched is None:
        return examined("match", "unknown", "lookups not observed")
    how = "found in L2 by lookups" if promised == matched else "loaded from L2 or credited to it (engine's counters)"
    return examined("match", "ok" if matched else "idle", f"{tokens(matched)} tokens {how}", _of_match(facts, matched))


def _promised(facts: ChainInput) -> float | None:
    return facts.recorded.promised_tokens if facts.recorded is not None else None


def _matched(facts: ChainInput) -> float | None:
    """From the recorder; where it has none to tell, what was loaded or credited has certainly been matched."""
    promised, counted = _promised(facts), facts.counted
    if promised or counted is None or counted.load_back_tokens is None:
        return promised
    return max(counted.load_back_tokens, counted.cached_host or 0)


def _of_match(facts: ChainInput, matched: float) -> Iterator[Finding]:
    counted = facts.counted
    if matched or counted is None or not counted.evicted_tokens or not backed_up(counted) or forgotten_by_l2(facts):
        return
    if facts.recorded is not None and facts.recorded.matched:
        return
    if facts.probed_alone or (counted.evicted_ever or counted.evicted_tokens) < (counted.device_capacity or 0):
        return  # until all of L1 has been replaced once, what is asked for again is likely to be there still
    stored = (
        f"{tokens(backed_up(counted))} tokens stored, {tokens(counted.evicted_tokens)} evicted from L1, none matched"
    )
    if counted.hybrid or counted.cached_device:
        reuse = f"; {tokens(counted.cached_device)} tokens were reused from L1" if counted.cached_device else ""
        hybrid = "; a hybrid model" if counted.hybrid else ""
        yield found("stored-never-matched", stored + reuse + hybrid)
    else:
        yield found("no-reuse-seen", f"{stored}, and nothing was reused from L1 either")


def load_back(facts: ChainInput) -> Stage:
    recorded = facts.recorded
    loaded = facts.counted.load_back_tokens if facts.counted is not None else None
    if recorded is not None and recorded.loaded_tokens is None:
        recorded = None  # it tells nothing of this
    findings = _of_load_back(recorded, loaded) if recorded is not None and not facts.probed_alone else ()
    if recorded is None or (loaded and not recorded.promised_tokens):
        state: State = "unknown" if loaded is None else "ok" if loaded else "idle"
        return examined("load_back", state, f"{tokens(loaded)} tokens loaded back (engine's counter)", findings)
    says = f"{tokens(recorded.loaded_tokens)} of {tokens(recorded.promised_tokens)} promised tokens loaded back"
    return examined("load_back", "ok" if recorded.loaded_tokens else "idle", says, findings)


def _of_load_back(recorded: Recorded, loaded: float | None) -> Iterator[Finding]:
    """``loaded``: tokens, by the engine's own counter."""
    declined = {outcome: n for outcome, n in recorded.load_backs.items() if outcome != "loaded" and n > 0}
    total, promised = sum(declined.values()) + recorded.load_backs.get("loaded", 0), recorded.promised_tokens or 0
    by_chance = declined.keys() == {"below_threshold"} and promised < CHANCE * total
    if not declined or by_chance:
        return
    reason = max(sorted(declined), key=lambda outcome: declined[outcome])
    says = f"{sum(declined.values()):.0f} of {total:.0f} load-backs declined, mostly {reason.replace('_', ' ')}"
    if not recorded.loaded_tokens and not loaded:
        yield found(_DECLINED.get(reason, "declined"), says)
    elif promised - (recorded.loaded_tokens or 0) >= SOME * promised:
        yield found("some-declined", says)


def attribution(facts: ChainInput) -> Stage:
    counted = facts.counted
    findings = [*_of_accounts(counted, facts.configuration), *_of_probe(facts.probe)] if counted is not None else []
    if counted is None or (counted.cached_host is None and counted.cached_unattributed is None):
        return examined("attribution", "unknown", "cached tokens by tier not known", findings)
    says = f"{tokens(counted.cached_host or 0)} cached tokens credited to L2"
    if counted.cached_unattributed:
        says += f", {tokens(counted.cached_unattributed)} to no tier"
    return examined("attribution", "ok" if counted.cached_host else "idle", says, findings)


def _of_accounts(counted: Counted, configuration: Configuration | None) -> Iterator[Finding]:
    loaded, lost = counted.load_back_tokens, counted.cached_unattributed or 0
    credited = (counted.cached_host or 0) + (counted.cached_storage or 0)
    if lost:
        workers = (configuration.tokenizer_workers or 1) if configuration is not None else 1
        says = f"{tokens(lost)} cached tokens have no tier"
        if workers > 1:
            yield found("multi-tokenizer", f"{says}; {workers} tokenizer workers")
        else:
            yield found("unattributed", says)
    elif loaded is not None:
        yield from _of_loads(loaded, credited, configuration)


def _of_loads(loaded: float, credited: float, configuration: Configuration | None) -> Iterator[Finding]:
    says = f"{tokens(loaded)} tokens loaded back, {tokens(credited)} credited to L2 and L3"
    if loaded and not credited:
        yield found("attributed-elsewhere", says)
    elif credited and not loaded:
        yield found("claimed-not-moved", says)
    elif loaded and credited:
        factor = loaded / credited
        ranks = configuration.tp_size * configuration.pp_size if configuration is not None else 1
        if factor > 1 + FACTOR_TOLERANCE:
            hint = f" (TP x PP is {ranks})" if ranks > 1 else ""
            yield found("more-moved-than-credited", f"{says}: {factor:.1f} times as many{hint}")


def probed(probe: Probe) -> str:
    replied = "no number" if probe.reply_cached_tokens is None else tokens(probe.reply_cached_tokens)
    says = f"a repeated prompt of {probe.prompt_tokens} tokens: the reply says {replied}, the engine counted "
    if probe.counted_cached_tokens is None:
        return says + "others' requests too, so can't tell"
    return says + f"{tokens(probe.counted_cached_tokens)} cached"


def _of_probe(probe: Probe | None) -> Iterator[Finding]:
    if probe is not None and probe.counted_cached_tokens and not probe.reply_cached_tokens:
        yield found("reply-unreliable", probed(probe))
