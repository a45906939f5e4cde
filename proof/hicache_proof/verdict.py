"""Judges the claim "this request read L2" from what the witnesses saw. Pure: same evidence, same judgement.

The best verdict that is left when a witness is missing (a seam that this engine lacks, a tool not used):

===================================  ===============================================================
missing                              best verdict
===================================  ===============================================================
nothing                              corroborated
content and physical                 proven
one of content, physical             corroborated
load_back, counters, ranks           corroborated (no pillar: they tell of a read or contradict)
answer, control                      corroborated (lab only)
attribution or reply, not both       corroborated
attribution and reply                consistent
lookup, residency or provenance      consistent
transfer                             consistent; never no_read
the whole recorder                   consistent, if the reply or the counters tell of a read
records (lost), engine restarted     not_observed
===================================  ===============================================================
"""

from __future__ import annotations

from typing import Literal, NamedTuple

import msgspec

from hicache_proof.amounts import accounts, moved, slack
from hicache_proof.conflicts import Conflict, find_conflicts
from hicache_proof.evidence import Evidence
from hicache_proof.rules import RULES
from hicache_proof.witnesses import answer, content, hear_all
from hicache_proof.witnesses.load_back import reason
from hicache_proof.witnesses.state import WitnessState

ServedBy = Literal["device", "host", "storage", "mixed", "none", "unknown"]
Verdict = Literal["corroborated", "proven", "consistent", "contradicted", "not_observed", "no_read"]
ContentState = Literal["intact", "damaged", "not_checked"]

PILLARS = ("lookup", "residency", "provenance", "transfer")
ACCOUNTS = ("attribution", "reply")
OUTSIDE = ("physical", "content")
TELL_OF_A_READ = ("transfer", "load_back", *ACCOUNTS, "counters")


class Judgement(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """``rule`` is the id (in RULES) that decided; ``reasons`` starts with its sentence."""

    served_by: ServedBy
    verdict: Verdict
    content: ContentState
    rule: str
    reasons: tuple[str, ...]
    witnesses: tuple[WitnessState, ...]


class _Decision(NamedTuple):
    verdict: Verdict
    rule: str
    because: tuple[str, ...] = ()


def judge(evidence: Evidence) -> Judgement:
    """Total on every valid evidence."""
    witnesses = hear_all(evidence)
    conflicts = find_conflicts(evidence)
    decision = _void(evidence) or _contradicted(conflicts) or _decide(evidence, witnesses)
    state, remarks = _content(evidence)
    return Judgement(
        served_by="unknown" if decision.verdict == "contradicted" else _served_by(evidence),
        verdict=decision.verdict,
        content=state,
        rule=decision.rule,
        reasons=(RULES[decision.rule], *decision.because, *remarks),
        witnesses=_name_the_odd_one(witnesses, conflicts),
    )


def _void(evidence: Evidence) -> _Decision | None:
    recorder = evidence.recorder
    if recorder.lost_records:
        return _Decision("not_observed", "records-lost", (f"{recorder.lost_records} records lost",))
    if recorder.engine_restarted:
        return _Decision("not_observed", "engine-restarted")
    if recorder.weights_changed:
        return _Decision("not_observed", "weights-changed")
    if recorder.reset_in_window:
        return _Decision("not_observed", "reset-in-window")
    return None


def _contradicted(conflicts: tuple[Conflict, ...]) -> _Decision | None:
    if not conflicts:
        return None
    because = tuple(f"{c.one} against {c.other}: {c.says}" for c in conflicts)
    return _Decision("contradicted", conflicts[0].rule, because)


def _decide(evidence: Evidence, witnesses: tuple[WitnessState, ...]) -> _Decision:
    supporting = {state.name for state in witnesses if state.stance == "supports"}
    missing = _missing_for_proof(evidence, supporting)
    if not missing:
        outside = tuple(name for name in OUTSIDE if name in supporting)
        partial = _partial(evidence)
        if outside:
            return _Decision("corroborated", "all-agree-outside-too", (f"confirmed by {', '.join(outside)}", *partial))
        return _Decision("proven", "all-agree", partial)
    if _all_from_storage(evidence):
        return _through_host(evidence)
    if supporting.intersection(TELL_OF_A_READ):
        says = {state.name: f"{state.name}: {state.says}" for state in witnesses}
        return _Decision("consistent", "some-say-read", tuple(says.get(name, name) for name in missing))
    return _no_read(evidence)


def _missing_for_proof(evidence: Evidence, supporting: set[str]) -> list[str]:
    missing = [name for name in PILLARS if name not in supporting]
    if not supporting.intersection(ACCOUNTS):
        missing.extend(ACCOUNTS)
    if not evidence.recorder.watching:
        missing.append("the flight recorder was not watching")
    return missing


def _partial(evidence: Evidence) -> tuple[str, ...]:
    promised, seen = evidence.lookup.host_tokens if evidence.lookup else 0, moved(evidence) or 0
    return (f"partial: {seen} of {promised} promised tokens were loaded",) if seen + slack(evidence) < promised else ()


def _all_from_storage(evidence: Evidence) -> bool:
    told = [account for _, account in accounts(evidence)]
    return bool(moved(evidence)) and any(a.storage_tokens for a in told) and not any(a.host_tokens for a in told)


def _through_host(evidence: Evidence) -> _Decision:
    provenance = evidence.provenance
    if provenance is not None and provenance.slots_known == 0 and evidence.recorder.watching:
        return _Decision("no_read", "storage-through-host")
    return _Decision("consistent", "origin-unknown")


def _no_read(evidence: Evidence) -> _Decision:
    lookup, answered, seen = evidence.lookup, evidence.load_back, moved(evidence)
    if seen:
        return _Decision("not_observed", "open")
    if seen is None or lookup is None or not evidence.recorder.watching:
        promised = lookup is not None and lookup.host_tokens > 0
        return _Decision("not_observed", "promise-only" if promised else "nothing-known")
    if lookup.host_tokens == 0:
        return _Decision("no_read", "nothing-promised")
    if answered is not None:
        return _Decision("no_read", "declined", (f"declined: {reason(answered)}",))
    return _Decision("no_read", "nothing-loaded")


def _served_by(evidence: Evidence) -> ServedBy:
    """By the engine's own account. Lookup's L3 promise without an L3 figure in the account leaves it unknown."""
    account = next((a for _, a in accounts(evidence) if None not in (a.device_tokens, a.host_tokens)), None)
    if account is None:
        return "unknown"
    storage = account.storage_tokens or 0
    if evidence.lookup is not None and (evidence.lookup.storage_tokens or 0) > 0 and storage == 0:
        return "unknown"
    tiers: dict[ServedBy, int] = {
        "device": account.device_tokens or 0,
        "host": account.host_tokens or 0,
        "storage": storage,
    }
    serving = [tier for tier, tokens in tiers.items() if tokens > 0]
    if not serving:
        return "none"
    return serving[0] if len(serving) == 1 else "mixed"


def _content(evidence: Evidence) -> tuple[ContentState, tuple[str, ...]]:
    """Whether the rows read are the rows written, and the remarks that the verdict must carry."""
    damage = tuple(_damage(evidence))
    if damage:
        return "damaged", damage
    checked = evidence.content
    if checked is None:
        return "not_checked", ()
    if content.complete(evidence, checked):
        unsigned = tuple(
            f"content: rank {v.rank}: {v.unseen} rows without a signature" for v in evidence.ranks if v.unseen
        )
        return ("not_checked", unsigned) if unsigned else ("intact", ())
    return "not_checked", (f"content: {checked.checked} rows compared, {checked.unseen} without a signature",)


def _damage(evidence: Evidence) -> list[str]:
    found = []
    if evidence.content is not None and evidence.content.mismatched > 0:
        found.append(f"content: {evidence.content.mismatched} of {evidence.content.checked} rows differ")
    found.extend(
        f"content: rank {v.rank} found {v.mismatched} rows that differ" for v in evidence.ranks if v.mismatched
    )
    if evidence.answer is not None and answer.failed(evidence.answer):
        found.append(f"answer: {answer.testify(evidence).says}")
    return found


def _name_the_odd_one(witnesses: tuple[WitnessState, ...], conflicts: tuple[Conflict, ...]) -> tuple[WitnessState, ...]:
    """A witness that a conflict names can't be shown as supporting if its opponent supports as well."""
    stances = {state.name: state.stance for state in witnesses}
    odd = {c.other for c in conflicts if stances.get(c.one) == stances.get(c.other) == "supports"}
    return tuple(
        msgspec.structs.replace(state, stance="contradicts") if state.name in odd else state for state in witnesses
    )
