"""Host memory as HiCache uses it: what the machine has, what each rank holds, pins and may still take."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from prometheus_client.metrics_core import Metric

from hicache_exporter import names
from hicache_exporter.collectors.page import Page
from hicache_exporter.core.rank_process import RankProcess
from hicache_exporter.names import Family
from hicache_exporter.sources.cgroup import CgroupMemory, Cgroups
from hicache_exporter.sources.host import Host
from hicache_exporter.sources.numa_watch import Answer
from hicache_exporter.sources.process import is_alive


class HostCollector:
    """``ranks`` gives the engine processes of this machine, ``nodes`` what is known of their pages, by pid."""

    def __init__(
        self,
        host: Host,
        ranks: Callable[[], Iterable[RankProcess]],
        nodes: Callable[[], Mapping[int, Answer]] = dict,
    ) -> None:
        self._host, self._ranks, self._nodes = host, ranks, nodes

    def collect(self) -> Iterable[Metric]:
        page = Page()
        memory = self._host.memory()
        for kind, value in memory.items():
            page.add(names.HOST_MEMORY, value, kind)
        for kind, line in self._host.pressure().items():
            for window, share in line.shares.items():
                page.add(names.HOST_PRESSURE, share, kind, window)
            page.add(names.HOST_STALLED, line.seconds, kind)
        room = self._host.shared_memory()
        if room is not None:
            page.add(names.HOST_SHM, room.size, "size")
            page.add(names.HOST_SHM, room.free, "free")
        cgroups = Cgroups(self._host.root)
        _cgroup(page, names.WITNESS_CGROUP, cgroups.of())
        ranks, nodes = list(self._ranks()), self._nodes()
        for rank in ranks:
            self._rank(page, rank, cgroups, nodes.get(rank.pid))
        _l2_share(page, ranks, memory.get("total"))
        return page.metrics()

    def _rank(self, page: Page, rank: RankProcess, cgroups: Cgroups, nodes: Answer | None) -> None:
        page.add(names.RANK_L2, rank.l2_bytes, rank.engine, rank.rank)
        page.add(names.RANK_L2_PINNED, rank.l2_pinned_bytes, rank.engine, rank.rank)
        visible = is_alive(rank.pid, rank.born_ns, self._host.root / "proc")
        page.add(names.RANK_VISIBLE, visible, rank.engine, rank.rank)
        if not visible:
            return
        for kind, value in self._host.process(rank.pid).items():
            page.add(names.RANK_MEMORY, value, rank.engine, rank.rank, kind)
        _cgroup(page, names.RANK_CGROUP, cgroups.of(rank.pid), rank.engine, rank.rank)
        if isinstance(nodes, str):
            page.add(names.RANK_NUMA_HIDDEN, 1, rank.engine, rank.rank, nodes)
        elif nodes is not None:
            for node, share in nodes.items():
                page.add(names.RANK_NUMA, share, rank.engine, rank.rank, str(node))


def _cgroup(page: Page, family: Family, memory: CgroupMemory | None, *labels: str) -> None:
    if memory is None:
        return
    page.add(family, memory.current, *labels, "current")
    page.add(family, memory.limit, *labels, "limit")
    page.add(family, memory.high, *labels, "high")
    page.add(family, memory.headroom, *labels, "headroom")


def _l2_share(page: Page, ranks: list[RankProcess], host_bytes: int | None) -> None:
    """Absent unless every rank tells its size: a sum that leaves one out would look like room."""
    sizes = [rank.l2_bytes for rank in ranks]
    if host_bytes and sizes and None not in sizes:
        page.add(names.HOST_L2_RATIO, sum(size for size in sizes if size is not None) / host_bytes)
