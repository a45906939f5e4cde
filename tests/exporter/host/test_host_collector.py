"""The host's families, from a small / of the test's own."""

import builtins
import io
import os
import time
from collections import Counter
from types import SimpleNamespace

import pytest

from hicache_exporter.collectors.host import HostCollector
from hicache_exporter.core.rank_process import RankProcess
from hicache_exporter.names import FAMILIES
from hicache_exporter.rank_processes import rank_processes
from hicache_exporter.sources.host import Host

GIB = 1 << 30
TICKS = os.sysconf("SC_CLK_TCK")


def stat(started_ns):
    boot = time.clock_gettime_ns(time.CLOCK_BOOTTIME) - time.clock_gettime_ns(time.CLOCK_MONOTONIC)
    return f"7 (sglang::schedul) S {'0 ' * 18}{(started_ns + boot) * TICKS // 10**9} 0 0"


NOW = time.monotonic_ns()
PROC = {
    "proc/meminfo": "MemTotal: 1048576 kB\nMemAvailable: 524288 kB\nSwapTotal: 0 kB\nMlocked: 4 kB\n",
    "proc/pressure/memory": "some avg10=1.00 avg60=0.00 avg300=0.00 total=3000000\n",
    "proc/self/cgroup": "0::/w\n",
    "sys/fs/cgroup/w/memory.current": "1000\n",
    "sys/fs/cgroup/w/memory.max": "max\n",
    "proc/7/stat": stat(NOW - 10**9),
    "proc/7/status": "VmRSS:\t 2048 kB\nVmPin:\t 1024 kB\nVmLck:\t 0 kB\nVmSwap:\t 0 kB\n",
    "proc/7/cgroup": "0::/engine\n",
    "sys/fs/cgroup/engine/memory.current": "500\n",
    "sys/fs/cgroup/engine/memory.max": "2000\n",
    "sys/fs/cgroup/engine/memory.high": "1500\n",
    "sys/fs/cgroup/engine/memory.stat": "inactive_file 100\n",
}
ENGINE = ("127.0.0.1:30000", "tp0")
RANK = RankProcess(*ENGINE, pid=7, born_ns=NOW, l2_bytes=GIB // 4)


@pytest.fixture
def scrape(tree):
    def read(files=PROC, ranks=(RANK,), nodes=None):
        room = SimpleNamespace(f_frsize=4096, f_blocks=100, f_bavail=40)
        host = Host(tree(files), statvfs=lambda path: room)
        found = {}
        for metric in HostCollector(host, lambda: ranks, lambda: nodes or {}).collect():
            for sample in metric.samples:
                assert set(sample.labels) == set(FAMILIES[metric.name].labels)
                found[sample.name, *sample.labels.values()] = sample.value
        return found

    return read


def test_the_machines_memory_pressure_and_shared_memory(scrape):
    found = scrape()
    assert found["hicache_host_memory_bytes", "total"] == GIB
    assert found["hicache_host_memory_bytes", "available"] == GIB // 2
    assert found["hicache_host_memory_bytes", "locked"] == 4096
    assert found["hicache_host_memory_bytes", "swap_total"] == 0
    assert ("hicache_host_memory_bytes", "free") not in found
    assert found["hicache_host_memory_pressure_ratio", "some", "10s"] == 0.01
    assert found["hicache_host_memory_stalled_seconds_total", "some"] == 3
    assert found["hicache_host_shm_bytes", "size"] == 409600
    assert found["hicache_host_shm_bytes", "free"] == 163840


def test_what_a_rank_holds_and_pins(scrape):
    found = scrape()
    assert found["hicache_rank_process_visible", *ENGINE] == 1
    assert found["hicache_rank_memory_bytes", *ENGINE, "resident"] == 2 << 20
    assert found["hicache_rank_memory_bytes", *ENGINE, "pinned"] == 1 << 20
    assert found["hicache_rank_memory_bytes", *ENGINE, "locked"] == 0
    assert ("hicache_rank_memory_bytes", *ENGINE, "resident_shared") not in found


@pytest.mark.parametrize("pinned", [GIB // 4, 0, None])
def test_what_of_l2_is_pinned_is_told_by_the_process_itself(scrape, pinned):
    """VmPin and VmLck are 0 beside 38 GB that a GPU's driver has pinned."""
    found = scrape(ranks=[RANK._replace(l2_pinned_bytes=pinned)])
    assert found.get(("hicache_rank_l2_pinned_bytes", *ENGINE)) == pinned


@pytest.mark.parametrize(
    ("memory", "pinned"),
    [
        ({"host_pool": 38, "host_pinned": 1}, 38),
        ({"host_pool": 38, "host_pinned": 0}, 0),
        ({"host_pool": 38}, None),
        ({"host_pinned": 1}, None),
    ],
)
def test_it_is_the_whole_pool_or_nothing_or_not_told(memory, pinned):
    identity = SimpleNamespace(rank="tp0", facts={}, bytes_per_token=None)
    ring = SimpleNamespace(header=SimpleNamespace(pid=7, created_ns=NOW))
    ledger = SimpleNamespace(ended=False, identity=identity, memory=memory)
    followed = {1: SimpleNamespace(ring=ring, ledger=ledger, engine=SimpleNamespace(label="a:1"))}
    (rank,) = rank_processes(SimpleNamespace(followed=followed))
    assert rank.l2_pinned_bytes == pinned


def test_the_cgroup_of_a_rank_and_our_own(scrape):
    found = scrape()
    room = {name[3]: value for name, value in found.items() if name[0] == "hicache_rank_cgroup_memory_bytes"}
    assert room == {"current": 500, "limit": 2000, "high": 1500, "headroom": 1600}
    ours = {name[1]: value for name, value in found.items() if name[0] == "hicache_witness_cgroup_memory_bytes"}
    assert ours == {"current": 1000}


def test_configured_l2_against_the_machines_memory(scrape):
    other = RANK._replace(rank="tp1", pid=8)
    found = scrape(ranks=(RANK, other))
    assert found["hicache_rank_l2_configured_bytes", *ENGINE] == GIB // 4
    assert found["hicache_host_l2_configured_ratio",] == 0.5


def test_a_rank_that_does_not_tell_its_l2_leaves_the_share_untold(scrape):
    found = scrape(ranks=(RANK, RANK._replace(rank="tp1", l2_bytes=None)))
    assert ("hicache_host_l2_configured_ratio",) not in found


def test_another_process_with_the_same_pid_is_not_taken_for_the_rank(scrape):
    found = scrape(PROC | {"proc/7/stat": stat(NOW + 60 * 10**9)})
    assert found["hicache_rank_process_visible", *ENGINE] == 0
    assert not any(name[0] == "hicache_rank_memory_bytes" for name in found)


def test_numa_shares_or_the_reason_why_there_are_none(scrape):
    shares = scrape(nodes={7: {0: 0.25, 1: 0.75}})
    assert shares["hicache_rank_memory_node_ratio", *ENGINE, "1"] == 0.75
    hidden = scrape(nodes={7: "no_permission"})
    assert hidden["hicache_rank_memory_node_hidden", *ENGINE, "no_permission"] == 1
    assert not any(name[0].startswith("hicache_rank_memory_node") for name in scrape())


def test_a_kernel_that_shows_nothing_gives_no_series(tree):
    def no_shm(_path):
        raise FileNotFoundError

    assert list(HostCollector(Host(tree({}), no_shm), list).collect()) == []


@pytest.mark.parametrize(("text", "node"), [("1\n", 1), ("0\n", 0), ("-1\n", None), (None, None)])
def test_the_numa_node_of_a_gpu_by_its_bus_id(tree, text, node):
    files = {} if text is None else {"sys/bus/pci/devices/0000:18:00.0/numa_node": text}
    assert Host(tree(files)).numa_node("00000000:18:00.0") == node


@pytest.fixture
def reads(tree, monkeypatch):
    """``reads(ranks)``: what a scrape opens, and how often."""
    root = tree(PROC)

    def count(ranks):
        opened = Counter()

        def noting(plain):
            def noted(path, *args, **kwargs):
                opened[os.path.relpath(path, root)] += 1
                return plain(path, *args, **kwargs)

            return noted

        with monkeypatch.context() as patch:
            for module in (os, io, builtins):
                patch.setattr(module, "open", noting(module.open))
            assert list(HostCollector(Host(root), lambda: ranks).collect())
        return opened

    return count


def test_a_rank_more_is_three_small_files_more(reads):
    """Never its memory map: the kernel walks all of its pages for that, behind a lock that the engine needs."""
    assert reads([RANK, RANK]) - reads([RANK]) == Counter(["proc/7/stat", "proc/7/status", "proc/7/cgroup"])
    assert reads([]).total() < 15
