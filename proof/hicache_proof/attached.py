"""L3 as the schedulers have it now: the top level of /server_info tells of the start, whatever was switched since."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec


class Scheduler(msgspec.Struct, frozen=True, kw_only=True):
    """One of ``internal_states``: the scheduler that speaks for one data-parallel replica."""

    hicache_storage_backend: str | msgspec.UnsetType | None = msgspec.UNSET
    hicache_storage_prefetch_policy: str | None = None


def storage_backend(schedulers: Sequence[Scheduler], at_start: str | None) -> str | None:
    """Of the first replica that has one; what the engine was started with where no scheduler tells."""
    told = [one.hicache_storage_backend for one in schedulers if one.hicache_storage_backend is not msgspec.UNSET]
    return next((backend for backend in told if backend is not None), None) if told else at_start
