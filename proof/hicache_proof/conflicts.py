"""Pairs of witnesses that can't both be right. Each finder compares figures that the two gave themselves.

No finder looks at a third witness, so one more witness can add conflicts and never removes one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

from hicache_proof.amounts import accounts, exceeds, moved, slack, through_host
from hicache_proof.evidence import Evidence
from hicache_proof.witnesses import control, counters, physical, ranks, residency
from hicache_proof.witnesses.lookup import retried


class Conflict(NamedTuple):
    """``one`` and ``other`` are names of witnesses; ``says`` holds the figure of each."""

    rule: str
    one: str
    other: str
    says: str


def account_against_transfer(evidence: Evidence) -> Iterator[Conflict]:
    seen, page = moved(evidence), slack(evidence)
    for name, account in accounts(evidence):
        claimed = through_host(account)
        if seen is None or claimed is None:
            continue
        says = f"{name} counts {claimed} tokens from host memory, transfer shows {seen}"
        if exceeds(claimed, seen, page):
            yield Conflict("claimed-not-moved", name, "transfer", says)
        if exceeds(seen, claimed, page):
            elsewhere = (account.device_tokens or 0) >= seen - claimed
            yield Conflict("attributed-elsewhere" if elsewhere else "loaded-not-used", "transfer", name, says)


def account_against_load_back(evidence: Evidence) -> Iterator[Conflict]:
    answer = evidence.load_back
    if answer is None or retried(evidence):
        return  # of several attempts only the last answer is known
    for name, account in accounts(evidence):
        claimed = through_host(account)
        if claimed is not None and exceeds(claimed, answer.loaded_tokens, slack(evidence)):
            says = f"{name} counts {claimed} tokens from host memory, load_back answered {answer.loaded_tokens}"
            yield Conflict("credited-not-loaded", name, "load_back", says)


def load_back_against_transfer(evidence: Evidence) -> Iterator[Conflict]:
    answer, seen = evidence.load_back, moved(evidence)
    if answer is None or seen is None:
        return
    says = f"load_back answered {answer.loaded_tokens} tokens, transfer shows {seen}"
    if exceeds(answer.loaded_tokens, seen, slack(evidence)):
        yield Conflict("load-back-not-moved", "load_back", "transfer", says)
    if answer.loaded_tokens == 0 and seen > 0 and not retried(evidence):
        yield Conflict("moved-after-decline", "transfer", "load_back", says)


def lookup_against_the_rest(evidence: Evidence) -> Iterator[Conflict]:
    lookup, seen = evidence.lookup, moved(evidence)
    if lookup is None or retried(evidence):
        return  # of several promises only the last is known
    for name, account in accounts(evidence):
        claimed = through_host(account)
        if claimed is not None and exceeds(claimed, lookup.host_tokens, slack(evidence)):
            says = f"{name} counts {claimed} tokens from host memory, lookup promised {lookup.host_tokens}"
            yield Conflict("credited-not-promised", name, "lookup", says)
    if lookup.host_tokens == 0 and (seen or 0) > 0:
        yield Conflict(
            "moved-without-promise", "transfer", "lookup", f"transfer shows {seen} tokens, lookup promised 0"
        )


def account_against_computed(evidence: Evidence) -> Iterator[Conflict]:
    prompt, computed = evidence.prompt_tokens, evidence.computed_tokens
    if prompt is None or computed is None:
        return
    for name, account in accounts(evidence):
        cached = sum(n or 0 for n in (account.device_tokens, account.host_tokens, account.storage_tokens))
        if cached + computed > prompt:
            says = f"{name} counts {cached} cached tokens and {computed} were computed, of a prompt of {prompt}"
            yield Conflict("computed-as-well", name, "computed", says)


def residency_against_the_rest(evidence: Evidence) -> Iterator[Conflict]:
    if evidence.residency is None or not residency.never_left(evidence.residency):
        return
    for name, tokens in _reads(evidence):
        says = f"{name} tells of {tokens} tokens read from L2, residency saw {evidence.residency.backed_up_tokens} stay"
        yield Conflict("never-left", name, "residency", f"{says} in L1")


def account_against_provenance(evidence: Evidence) -> Iterator[Conflict]:
    provenance = evidence.provenance
    if provenance is None:
        return
    for name, account in accounts(evidence):
        if account.host_tokens is None or not account.storage_tokens:
            continue
        if exceeds(provenance.slots_known, account.host_tokens, slack(evidence)):
            says = (
                f"{name} credits L3 with {account.storage_tokens} tokens and L2 with {account.host_tokens}, provenance"
            )
            says += f" knows {provenance.slots_known} slots written from the device"
            yield Conflict("storage-not-by-origin", name, "provenance", says)


def accounts_against_each_other(evidence: Evidence) -> Iterator[Conflict]:
    one, other = evidence.attribution, evidence.reply
    if one is None or other is None:
        return
    tiers = {
        "L1": (one.device_tokens, other.device_tokens),
        "L2": (one.host_tokens, other.host_tokens),
        "L3": (one.storage_tokens, other.storage_tokens),
    }
    for tier, (here, there) in tiers.items():
        if here is not None and there is not None and here != there:
            says = f"{tier}: attribution counts {here} tokens, reply {there}"
            yield Conflict("accounts-differ", "attribution", "reply", says)


def counters_against_the_rest(evidence: Evidence) -> Iterator[Conflict]:
    if evidence.counters is None or not counters.usable(evidence):
        return
    loaded, cached = evidence.counters.load_back_tokens, evidence.counters.cached_host_tokens
    yield from _counter_differs(evidence, "load-back", loaded, "transfer", moved(evidence))
    for name, account in accounts(evidence):
        yield from _counter_differs(evidence, "load-back", loaded, name, through_host(account))
        yield from _counter_differs(evidence, "cached-from-host", cached, name, account.host_tokens)


def _counter_differs(
    evidence: Evidence, counter: str, counted: int | None, name: str, tokens: int | None
) -> Iterator[Conflict]:
    if counted is None or tokens is None:
        return
    page = slack(evidence)
    if exceeds(counted, tokens, page) or exceeds(tokens, counted, page):
        says = f"the {counter} counter moved by {counted} tokens, {name} says {tokens}"
        yield Conflict("counters-differ", "counters", name, says)


def bus_against_transfer(evidence: Evidence) -> Iterator[Conflict]:
    for says in physical.missing(evidence):
        yield Conflict("bytes-missing", "transfer", physical.NAME, says)


def control_against_the_rest(evidence: Evidence) -> Iterator[Conflict]:
    state = control.testify(evidence)
    if state.stance == "contradicts":
        for name, tokens in _reads(evidence):
            yield Conflict("control-reads-too", name, "control", f"{name} tells of {tokens} tokens; {state.says}")


def ranks_against_this_one(evidence: Evidence) -> Iterator[Conflict]:
    own = evidence.attribution.host_tokens if evidence.attribution is not None else None
    for view in evidence.ranks:
        for name, here, there in (
            ("attribution", own, view.host_tokens),
            ("transfer", moved(evidence), view.loaded_tokens),
        ):
            if here is not None and there is not None and here != there:
                says = f"{name}: rank {evidence.rank} says {here} L2 tokens, rank {view.rank} says {there}"
                yield Conflict("ranks-differ", name, ranks.NAME, says)


def _reads(evidence: Evidence) -> Iterator[tuple[str, int]]:
    """Witnesses that give this request's L2 read a size."""
    seen = moved(evidence)
    if seen:
        yield "transfer", seen
    for name, account in accounts(evidence):
        if account.host_tokens:
            yield name, account.host_tokens


FINDERS: tuple[Callable[[Evidence], Iterator[Conflict]], ...] = (  # the first conflict found gives the verdict its rule
    accounts_against_each_other,
    account_against_transfer,
    account_against_load_back,
    load_back_against_transfer,
    lookup_against_the_rest,
    account_against_computed,
    residency_against_the_rest,
    account_against_provenance,
    counters_against_the_rest,
    bus_against_transfer,
    control_against_the_rest,
    ranks_against_this_one,
)


def find_conflicts(evidence: Evidence) -> tuple[Conflict, ...]:
    return tuple(conflict for finder in FINDERS for conflict in finder(evidence))
