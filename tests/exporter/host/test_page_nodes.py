"""NUMA nodes of a process's memory from a sample of its pages."""

import errno
import mmap
import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hicache_exporter.sources.numa_watch import NumaWatch
from hicache_exporter.sources.page_nodes import LARGE, PagesHiddenError, large_mappings, move_pages, node_shares, spread

PAGE = mmap.PAGESIZE
MAPS = f"""55a2bd981000-55a2bd983000 r--p 00000000 08:01 12 /usr/bin/python3
700000000000-{0x700000000000 + 2 * LARGE:x} rw-p 00000000 00:00 0
710000000000-{0x710000000000 + LARGE:x} rw-s 00000000 00:1a 77 /dev/shm/pool (deleted)
720000000000-{0x720000000000 + LARGE:x} rw-s 00000000 00:06 99 /dev/nvidia0
730000000000-{0x730000000000 + LARGE:x} ---p 00000000 00:00 0
"""


def test_bulk_memory_is_large_readable_and_no_device():
    assert [start for start, _ in large_mappings(MAPS.splitlines())] == [0x700000000000, 0x710000000000]


@given(st.lists(st.tuples(st.integers(0, 1000), st.integers(1, 1000)), min_size=1, max_size=8), st.integers(1, 64))
def test_samples_lie_inside_the_mappings_in_proportion_to_their_size(layout, wanted):
    spans, at = [], 0
    for hole, pages in layout:
        at += hole * PAGE
        spans.append((at, at + pages * PAGE))
        at += pages * PAGE
    found = spread(spans, wanted)
    total = sum(pages for _, pages in layout)
    assert min(wanted, total) <= len(found) + 1 <= 2 * wanted + 2
    assert all(any(start <= address < end for start, end in spans) for address in found)
    for start, end in spans:
        inside = sum(start <= address < end for address in found)
        assert abs(inside - len(found) * (end - start) / PAGE / total) <= 2


def test_shares_by_node_count_only_pages_in_memory(tree):
    root = tree({"proc/7/maps": MAPS})

    def query(pid, addresses):
        assert pid == 7
        return [
            1 if address >= 0x710000000000 else (0, -errno.ENOENT)[number % 2]
            for number, address in enumerate(addresses)
        ]

    assert node_shares(7, root, query) == {0: pytest.approx(0.5, abs=0.01), 1: pytest.approx(0.5, abs=0.01)}


def test_nothing_large_is_no_share_at_all(tree):
    assert node_shares(7, tree({"proc/7/maps": MAPS.splitlines()[0]})) == {}


@pytest.mark.parametrize(
    ("error", "reason"),
    [(PermissionError(), "no_permission"), (FileNotFoundError(), "gone"), (OSError(errno.ENOSYS, ""), "not_supported")],
)
def test_a_kernel_that_does_not_tell_gives_a_reason(tree, error, reason):
    def query(_pid, _addresses):
        raise error

    with pytest.raises(PagesHiddenError) as caught:
        node_shares(7, tree({"proc/7/maps": MAPS}), query)
    assert caught.value.reason == reason


def test_a_process_that_is_gone_gives_a_reason(tree):
    with pytest.raises(PagesHiddenError, match="gone"):
        node_shares(7, tree({}))


def test_the_kernel_is_asked_for_real():
    with mmap.mmap(-1, LARGE) as block:
        block.write(bytes(LARGE))
        try:
            shares = node_shares(os.getpid())
        except PagesHiddenError as hidden:
            pytest.skip(f"move_pages is not allowed here: {hidden.reason}")
        assert sum(shares.values()) == pytest.approx(1)
        assert move_pages(os.getpid(), [0])[0] < 0


def test_the_watch_keeps_the_last_answers_and_forgets_the_dead():
    pids, answers = [1, 2], {1: {0: 1.0}}

    def shares(pid):
        if pid in answers:
            return answers[pid]
        raise PagesHiddenError("no_permission")

    watch = NumaWatch(lambda: pids, shares)
    assert watch.latest() == {}
    watch.ask()
    assert watch.latest() == {1: {0: 1.0}, 2: "no_permission"}
    pids.remove(1)
    watch.ask()
    assert watch.latest() == {2: "no_permission"}
