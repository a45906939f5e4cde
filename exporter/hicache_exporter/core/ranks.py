"""How the numbers of an engine's ranks become one number.

Every rank of a tensor-parallel group runs its own cache over its own shard, and all of them count the same *logical*
tokens. Data-parallel groups serve different requests, so they add up. Engines up to 0.5.20 give the counters of the
cache no rank label: prometheus-client's multiprocess registry then adds all ranks up, and the number is too high by
the number of ranks that share one data-parallel group.

Numbers are vectors here: ``(value,)`` for counters and gauges, ``(count, sum, *buckets)`` for histograms, so that one
set of rules serves both.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

Vector = tuple[float, ...]
Basis = Literal["one_rank", "divided", "summed"]


@dataclass(frozen=True, slots=True)
class Series:
    labels: Mapping[str, str]
    values: Vector


@dataclass(frozen=True, slots=True)
class Combined:
    values: Vector
    basis: Basis
    ranks: int
    """Ranks that this number stands for."""


@dataclass(frozen=True, slots=True)
class RankShape:
    """Parallel layout of the engine, from its /server_info. Ranks are laid out pipeline stage by pipeline stage."""

    tp: int = 1
    pp: int = 1
    dp: int = 1
    nodes: int = 1
    node: int = 0
    dp_attention: bool = False
    """Data-parallel groups are slices of the tensor-parallel group, not copies of it."""
    attention_cp: int = 1

    @property
    def sound(self) -> bool:
        sizes = (self.tp, self.pp, self.dp, self.nodes, self.attention_cp)
        groups_fit = not self.dp_attention or self.tp % self.dp == 0
        return min(sizes) >= 1 and 0 <= self.node < self.nodes <= self.tp * self.pp and groups_fit

    def _local(self) -> list[int]:
        """Tensor-parallel rank of each rank whose metrics this node holds, one copy of the engine."""
        world = [tp for _ in range(self.pp) for tp in range(self.tp)]
        per_node = len(world) // self.nodes
        return world[self.node * per_node : (self.node + 1) * per_node]

    @property
    def _copies(self) -> int:
        return 1 if self.dp_attention else self.dp

    @property
    def _group_size(self) -> int:
        """Tensor-parallel ranks of one data-parallel group."""
        return self.tp // self.dp if self.dp_attention else self.tp

    @property
    def local_ranks(self) -> int:
        return len(self._local()) * self._copies

    @property
    def local_groups(self) -> int:
        """Data-parallel groups on this node."""
        return len({tp // self._group_size for tp in self._local()}) * self._copies

    @property
    def tree_identities(self) -> int:
        """Distinct rank labels of the trees (0.5.21 and later): copies and context-parallel ranks share them."""
        return max(1, len(self._local()) // (self.attention_cp if self.dp_attention else 1))

    @property
    def reporting_ranks(self) -> int:
        """Ranks that report scheduler metrics: the first of each data-parallel group, on every pipeline stage."""
        return sum(tp % self._group_size == 0 for tp in self._local()) * self._copies

    @property
    def ranks_per_group(self) -> float:
        """Local ranks that count the same logical tokens."""
        return self.local_ranks / self.local_groups

    def sharing(self, labels: Mapping[str, str]) -> float:
        """Ranks that the engine has added up in one series with these labels."""
        if "tp_rank" not in labels:
            return self.ranks_per_group
        if self.dp_attention and "cache_type" in labels:
            return self.attention_cp  # the cache's tp_rank is then the attention rank, which these ranks share
        return 1


def total(series: Iterable[Series], shape: RankShape | None) -> Combined | None:
    """Every series has its own share: bytes of the ranks, requests of the front end (which has no ranks: 0)."""
    found = list(series)
    if not found:
        return None
    ranks = len(identities(found))
    if not ranks and shape and "cache_type" in found[0].labels:
        ranks = shape.local_ranks
    return Combined(_add(one.values for one in found), "summed", ranks)


def logical(series: Iterable[Series], shape: RankShape | None) -> Combined | None:
    """Every rank repeats the same number; data-parallel groups add up.

    Ranks are read while they count, so the one that is furthest ahead speaks for its group: it never goes back.
    None: nothing to combine, or the engine has added up ranks and their number is not known.
    """
    found = list(series)
    if not found:
        return None
    if not any("tp_rank" in one.labels for one in found):
        return _divided(found, shape)
    groups: dict[str, dict[tuple[str, ...], list[Vector]]] = {}
    speaking = set()
    for one in found:
        rank = identity(one.labels)
        if "tp_rank" in one.labels:
            speaking.add(rank)
        groups.setdefault(rank[DP], {}).setdefault(rank, []).append(one.values)
    per_group = [max((_add(parts) for parts in ranks.values()), key=lambda v: v[0]) for ranks in groups.values()]
    sharing = shape.sharing(found[0].labels) if shape else 1
    return Combined(_divide(_add(per_group), sharing), "one_rank", len(speaking))


def _divided(found: list[Series], shape: RankShape | None) -> Combined | None:
    if shape is None:
        return None
    return Combined(_divide(_add(one.values for one in found), shape.ranks_per_group), "divided", shape.local_ranks)


DP = 2


def identity(labels: Mapping[str, str]) -> tuple[str, ...]:
    """The rank that speaks in a series."""
    get = labels.get  # asked for every sample of every scrape
    return get("tp_rank", ""), get("pp_rank", ""), get("dp_rank", ""), get("moe_ep_rank", ""), get("attn_cp_rank", "")


def identities(series: Iterable[Series]) -> set[tuple[str, ...]]:
    """The ranks that speak in these series."""
    return {identity(one.labels) for one in series if "tp_rank" in one.labels}


def _add(vectors: Iterable[Vector]) -> Vector:
    first, *others = vectors
    return tuple(map(sum, zip(first, *others, strict=True))) if others else first


def _divide(values: Vector, by: float) -> Vector:
    """A histogram keeps whole observations: ranks differ in their buckets, and OpenMetrics knows no half ones."""
    if by == 1:
        return values
    if len(values) == 1:
        return (values[0] / by,)
    count, total, *buckets = values
    return (count // by, total / by, *(bucket // by for bucket in buckets))
