"""What is known of an engine's L3 at one moment, each from the one who knows it. ``None`` means: nobody said."""

from __future__ import annotations

from typing import Literal

import msgspec

Action = Literal["status", "attach", "detach"]
State = Literal["attached", "detached", "mixed", "unknown"]


class _Fact(msgspec.Struct, frozen=True, kw_only=True):
    """Base of all facts: immutable, keyword-only. Unknown fields of the engine's answers are dropped."""


class Frontend(_Fact, frozen=True, kw_only=True):
    """GET /hicache/storage-backend: the front end's own note, which follows the schedulers only if all succeeded."""

    hicache_storage_backend: str | None = None
    hicache_storage_prefetch_policy: str | None = None
    hicache_write_policy: str | None = None


class Replica(_Fact, frozen=True, kw_only=True):
    """What the scheduler that speaks for one data-parallel replica has now (internal_states of /server_info).

    The top level of that answer is the configuration of the start, whatever was attached since.
    """

    hicache_storage_backend: str | msgspec.UnsetType | None = msgspec.UNSET
    """Unset: it does not tell."""
    hicache_storage_prefetch_policy: str | None = None
    hicache_write_policy: str | None = None

    @property
    def tells(self) -> bool:
        return self.hicache_storage_backend is not msgspec.UNSET

    @property
    def has(self) -> str:
        return (self.hicache_storage_backend or "none") if self.tells else "?"


class Rank(_Fact, frozen=True, kw_only=True):
    """One rank, by its flight recorder: the last switch of L3 in it."""

    rank: str
    attached: bool | None
    """None: no switch is in its ring."""
    succeeded: bool | None


class Load(_Fact, frozen=True, kw_only=True):
    """Requests of one data-parallel replica at this moment (/v1/loads)."""

    dp_rank: int = 0
    num_running_reqs: int = 0
    num_waiting_reqs: int = 0
    queues: dict[str, int | None] = {}
    """Requests that wait elsewhere than in the main queue."""

    @property
    def says(self) -> str | None:
        """None: this replica has nothing to do."""
        amounts = {"running": self.num_running_reqs, "waiting": self.num_waiting_reqs, **self.queues}
        busy = [f"{amount} {name}" for name, amount in amounts.items() if amount]
        return f"replica {self.dp_rank}: {', '.join(busy)}" if busy else None


class Traffic(_Fact, frozen=True, kw_only=True):
    seconds: float
    """How long it was watched."""
    busy: tuple[str, ...]
    """One sentence a replica that had something to do."""
    finished: float | None
    """Requests that ended meanwhile; None: the engine serves no /metrics."""

    @property
    def says(self) -> str | None:
        """None: there was none."""
        seen = list(self.busy)
        if self.finished:
            seen.append(f"{self.finished:.0f} requests ended within {self.seconds:.0f} s")
        return "; ".join(seen) or None


class Facts(_Fact, frozen=True, kw_only=True):
    replicas: tuple[Replica, ...]
    frontend: Frontend | None
    frontend_missing: str | None
    ranks: tuple[Rank, ...]
    ranks_missing: str | None
    """Why no rank is seen."""
    traffic: Traffic
    hicache: bool | None = None
    """Whether the engine has one at all; None: it does not say."""
    ranks_expected: int | None = None
    """That the engine runs on its machine; None: it does not say."""

    @property
    def ranks_silent(self) -> int:
        """Ranks here that no recorder speaks for, as far as is known."""
        return max(0, (self.ranks_expected or 0) - len(self.ranks))


class Report(_Fact, frozen=True, kw_only=True):
    """The answer of the command; ``--json`` prints it as it is."""

    action: Action
    engine: str
    version: str | None
    backend: str | None
    """What was to be attached."""
    state: State
    done: bool
    """The engine is as it was asked to be, as far as anybody can say. Of ``status``: all parts agree."""
    says: str
    do: str | None
    """What to do about it; None: nothing."""
    answers: tuple[str, ...]
    """The engine's words, the last one last."""
    facts: Facts
