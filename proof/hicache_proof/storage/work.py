"""The three things that can be done: look, attach, detach. Never while the engine serves anybody."""

from __future__ import annotations

import time
from typing import NamedTuple

from hicache_proof.lab.errors import CannotRunError
from hicache_proof.storage import conclude, recorded
from hicache_proof.storage.api import Answer, StorageApi
from hicache_proof.storage.recorded import NoRecorderError
from hicache_proof.storage.state import Action, Facts, Frontend, Rank, Report, Traffic

WATCH_SECONDS = 2.0
PATIENCE_SECONDS = 10.0
PAUSE_SECONDS = 0.5
LATE_SECONDS = 5.0
"""How much later than the first rank, which answers for all, another one may have done it."""
NOT_IDLE = "not idle"
"""In the engine's refusal; without requests it means that copies between tiers are still under way."""


class Wanted(NamedTuple):
    backend: str | None
    """None: no L3."""
    settings: dict[str, str]
    """Further fields of the engine's request, by the engine's names."""


def status(api: StorageApi, ring_folder: str) -> Report:
    return conclude.status(api.url, api.info.version, _facts(api, ring_folder, 0, traffic(api, 0)))


def switch(api: StorageApi, wanted: Wanted, ring_folder: str) -> Report:
    """Attach or detach. Raises CannotRunError if others use the engine, or nothing can be asked of it."""
    if not api.info.enable_hierarchical_cache:
        raise CannotRunError(f"HiCache is off at {api.url}: without L2 there is no L3; --enable-hierarchical-cache")
    seen = traffic(api, WATCH_SECONDS)
    if seen.says is not None:
        raise CannotRunError(
            f"{api.url} is serving others ({seen.says}): L3 is switched only while nobody uses the engine; "
            "take it out of the load balancer first"
        )
    since_ns = time.monotonic_ns()
    answers = _asked(api, wanted)
    facts = _facts(api, ring_folder, since_ns, seen)
    action: Action = "attach" if wanted.backend is not None else "detach"
    words = tuple(dict.fromkeys(answer.says for answer in answers))
    return conclude.switched(action, wanted.backend, api.url, api.info.version, facts, words, answers[-1].ok)


def traffic(api: StorageApi, seconds: float) -> Traffic:
    """What the engine has to do, now and for so long."""
    before, deadline = api.finished(), time.monotonic() + seconds
    busy: dict[str, None] = {}
    while True:
        busy |= dict.fromkeys(load.says for load in api.loads() if load.says is not None)
        if busy or time.monotonic() >= deadline:
            break
        time.sleep(min(PAUSE_SECONDS, seconds))
    after = api.finished()
    finished = None if before is None or after is None else after - before
    return Traffic(seconds=seconds, busy=tuple(busy), finished=finished)


def _asked(api: StorageApi, wanted: Wanted) -> list[Answer]:
    """Asked again while copies between the tiers keep the engine from it."""
    answers, deadline = list[Answer](), time.monotonic() + PATIENCE_SECONDS
    while True:
        if wanted.backend is None:
            answers.append(api.detach())
        else:
            answers.append(api.attach({"hicache_storage_backend": wanted.backend, **wanted.settings}))
        if answers[-1].ok or NOT_IDLE not in answers[-1].says or time.monotonic() >= deadline:
            return answers
        time.sleep(PAUSE_SECONDS)


def _facts(api: StorageApi, ring_folder: str, since_ns: int, seen: Traffic) -> Facts:
    hicache = api.info.enable_hierarchical_cache
    frontend, no_frontend = _frontend(api) if hicache is not False else (None, "not asked: HiCache is off")
    ranks, no_ranks = _ranks(ring_folder, api.url, since_ns)
    return Facts(
        replicas=api.replicas(),
        frontend=frontend,
        frontend_missing=no_frontend,
        ranks=ranks,
        ranks_missing=no_ranks,
        ranks_expected=api.info.shape.local_ranks if api.info.shape is not None else None,
        traffic=seen,
        hicache=hicache,
    )


def _frontend(api: StorageApi) -> tuple[Frontend | None, str | None]:
    try:
        return api.frontend(), None
    except CannotRunError as error:
        return None, str(error)


def _ranks(folder: str, engine: str, since_ns: int) -> tuple[tuple[Rank, ...], str | None]:
    deadline = time.monotonic() + LATE_SECONDS
    while True:
        try:
            ranks = recorded.ranks(folder, engine, since_ns)
        except NoRecorderError as error:
            return (), str(error)
        told = sum(rank.attached is not None for rank in ranks)
        if not since_ns or told in (0, len(ranks)) or time.monotonic() >= deadline:
            return ranks, None
        time.sleep(PAUSE_SECONDS / 5)
