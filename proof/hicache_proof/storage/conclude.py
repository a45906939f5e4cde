"""From what replicas and ranks have to the one sentence: done, not done, or done in part. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from hicache_proof.storage.state import Action, Facts, Rank, Report, State

PART = "Bring the ranks to one state again before traffic returns: `hicache-witness storage detach`, then attach anew."
NO_L2 = "Restart it with --enable-hierarchical-cache."


def state_of(facts: Facts) -> State:
    """The replicas, and the ranks by their last switch: one that failed in all alike left things as they were."""
    replicas = {replica.hicache_storage_backend for replica in facts.replicas if replica.tells}
    ranks = {(rank.attached, rank.succeeded) for rank in facts.ranks if rank.attached is not None}
    states = {backend is not None for backend in replicas} | {attached for attached, succeeded in ranks if succeeded}
    if max(len(replicas), len(ranks), len(states)) > 1:
        return "mixed"
    if not states:
        return "unknown"
    return "attached" if states.pop() else "detached"


def status(engine: str, version: str | None, facts: Facts) -> Report:
    state, off = state_of(facts), facts.hicache is False
    backends = sorted({replica.has for replica in facts.replicas if replica.tells})
    says = {
        "attached": f"L3 is attached: {', '.join(backends) or 'by the recorders'}",
        "detached": "no L3 is attached",
        "mixed": f"the ranks do not agree: {_differences(facts)}",
        "unknown": "the engine does not tell what its schedulers have",
    }[state]
    return Report(
        action="status",
        engine=engine,
        version=version,
        backend=None,
        state=state,
        done=state in ("attached", "detached"),
        says="HiCache is off: without L2 there is no L3" if off else says,
        do=NO_L2 if off else PART if state == "mixed" else None,
        answers=(),
        facts=facts,
    )


def switched(
    action: Action,
    backend: str | None,
    engine: str,
    version: str | None,
    facts: Facts,
    answers: tuple[str, ...],
    ok: bool,
) -> Report:
    """``ok``: the engine's own answer, which speaks for one rank of each replica only.

    ``facts.ranks`` hold what the recorders saw since the switch was asked for.
    """
    told = tuple(rank for rank in facts.ranks if rank.attached is not None)
    ranks = facts.ranks if told else ()
    # A tree with nothing to detach may call that a failure: where all ranks did, the engine's answer stands.
    nothing = ok and backend is None and all((rank.attached, rank.succeeded) == (False, False) for rank in ranks)
    missing = [*_not_there(backend, facts), *(() if nothing else _failed(backend is not None, ranks))]
    asked = _speaking(facts) + len(ranks)
    done, in_part = ok and not missing and asked > 0, 0 < len(missing) < asked
    verb = f"{action}ed"
    if done:
        says = f"L3 is {verb}{_by_whom(facts, ranks)}"
    elif in_part:
        says = f"{verb} in part only: {'; '.join(missing)}"
    else:
        says = f"not {verb}, as far as can be seen"
    return Report(
        action=action,
        engine=engine,
        version=version,
        backend=backend,
        state="mixed" if in_part else state_of(facts),
        done=done,
        says=says,
        do=PART if in_part else None,
        answers=answers,
        facts=facts,
    )


def _not_there(backend: str | None, facts: Facts) -> Iterator[str]:
    for number, replica in enumerate(facts.replicas):
        if replica.tells and replica.hicache_storage_backend != backend:
            yield f"replica {number} has {replica.has}"


def _failed(attach: bool, ranks: tuple[Rank, ...]) -> Iterator[str]:
    for rank in ranks:
        if rank.attached is None:
            yield f"{rank.rank} did nothing"
        elif rank.attached != attach or not rank.succeeded:
            yield f"{rank.rank} failed"


def _by_whom(facts: Facts, ranks: tuple[Rank, ...]) -> str:
    if ranks:
        seen = f"all {len(ranks)} ranks that record" if len(ranks) > 1 else "the rank that records"
        return f", seen in {seen}" + (f"; {facts.ranks_silent} more here do not" if facts.ranks_silent else "")
    speakers = f"{_speaking(facts)} replicas say" if _speaking(facts) > 1 else "rank 0 says"
    return f", as {speakers}; no recorder tells of each rank"


def _speaking(facts: Facts) -> int:
    return sum(replica.tells for replica in facts.replicas)


def _differences(facts: Facts) -> str:
    replicas = [f"replica {n} has {r.has}" for n, r in enumerate(facts.replicas) if r.tells]
    return "; ".join([*replicas, *(_of_rank(rank) for rank in facts.ranks if rank.attached is not None)])


def _of_rank(rank: Rank) -> str:
    return f"{rank.rank} {'attached' if rank.attached else 'detached'}{'' if rank.succeeded else ' in vain'}"
