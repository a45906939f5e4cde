"""Memory of a cgroup: its own numbers, and the room under the tightest limit above it."""

from hicache_exporter.sources.cgroup import Cgroups

GIB = 1 << 30


def read_cgroup(root, pid="self"):
    return Cgroups(root).of(pid)


def v2(path, current, most="max", cached=0, high="max"):
    base = f"sys/fs/cgroup{path}"
    return {
        f"{base}/memory.current": f"{current}\n",
        f"{base}/memory.max": f"{most}\n",
        f"{base}/memory.high": f"{high}\n",
        f"{base}/memory.stat": f"anon 1\ninactive_file {cached}\n",
    }


def test_version_2_with_limit_and_high_mark(tree):
    root = tree({"proc/7/cgroup": "0::/pod\n"} | v2("/pod", 3 * GIB, most=8 * GIB, cached=GIB, high=6 * GIB))
    found = read_cgroup(root, 7)
    assert (found.version, found.current, found.limit, found.high) == (2, 3 * GIB, 8 * GIB, 6 * GIB)
    assert found.headroom == 6 * GIB  # cached file pages give way before anything is killed


def test_the_tightest_ancestor_decides_the_room(tree):
    root = tree(
        {"proc/self/cgroup": "0::/a/b\n"}
        | v2("/a/b", GIB, most=100 * GIB)
        | v2("/a", 9 * GIB, most=10 * GIB)
        | {"sys/fs/cgroup/memory.stat": ""}
    )
    assert read_cgroup(root).headroom == GIB


def test_without_any_limit_there_is_no_headroom_to_tell(tree):
    found = read_cgroup(tree({"proc/self/cgroup": "0::/a\n"} | v2("/a", GIB)))
    assert (found.limit, found.high, found.headroom) == (None, None, None)


def test_a_group_over_its_limit_has_no_room_not_less(tree):
    root = tree({"proc/self/cgroup": "0::/a\n"} | v2("/a", 3 * GIB, most=2 * GIB))
    assert read_cgroup(root).headroom == 0


def test_version_1_where_the_unified_hierarchy_has_no_memory(tree):
    base = "sys/fs/cgroup/memory/pod"
    root = tree(
        {
            "proc/self/cgroup": "4:memory:/pod\n0::/\n",
            f"{base}/memory.usage_in_bytes": f"{GIB}\n",
            f"{base}/memory.limit_in_bytes": f"{4 * GIB}\n",
            f"{base}/memory.stat": "cache 5\ntotal_inactive_file 0\n",
        }
    )
    found = read_cgroup(root)
    assert (found.version, found.current, found.limit, found.headroom) == (1, GIB, 4 * GIB, 3 * GIB)


def test_in_a_container_the_top_of_the_mount_is_the_containers_own_group(tree):
    root = tree({"proc/self/cgroup": "0::/kubepods/pod1/c1\n"} | v2("", 2 * GIB, most=3 * GIB))
    assert read_cgroup(root).headroom == GIB


def test_a_process_outside_our_cgroup_namespace_is_not_seen(tree):
    assert read_cgroup(tree({"proc/7/cgroup": "0::/../other\n"} | v2("", GIB)), 7) is None


def test_no_process_and_no_accounting_are_no_numbers(tree):
    root = tree({"proc/self/cgroup": "0::/a\n"})
    assert read_cgroup(root) is None
    assert read_cgroup(root, 999) is None


def test_ranks_in_one_group_share_what_was_read_of_it_and_others_do_not(tree) -> None:
    groups = {f"proc/{pid}/cgroup": f"0::/{group}\n" for pid, group in ((7, "a"), (8, "a"), (9, "b"))}
    root = tree(groups | v2("/a", GIB) | v2("/b", 2 * GIB))
    cgroups = Cgroups(root)
    first = cgroups.of(7)
    assert cgroups.of(8) is first
    assert cgroups.of(9) == read_cgroup(root, 9) != first
    assert cgroups.of(999) is None
