"""Numbers out of /proc and cgroup files."""

from hypothesis import given
from hypothesis import strategies as st

from hicache_exporter.core.proc_text import (
    HOST_MEMORY,
    PROCESS_MEMORY,
    CgroupPaths,
    amounts,
    cgroup_paths,
    limit,
    pressure,
    statistic,
)

MEMINFO = (
    "MemTotal:       24684100 kB\nMemAvailable:   24206208 kB\nMlocked:           19300 kB\nHugePages_Total:       3\n"
)
PSI = """some avg10=12.50 avg60=3.00 avg300=0.10 total=2500000
full avg10=0.00 avg60=0.00 avg300=0.00 total=1000
"""


def test_kilobytes_become_bytes_under_our_names_and_missing_lines_stay_missing():
    assert amounts(MEMINFO, HOST_MEMORY) == {"total": 25276518400, "available": 24787156992, "locked": 19763200}


def test_pinned_and_locked_memory_of_a_process():
    status = "Name:\tsglang::schedul\nVmPin:\t  300000 kB\nVmLck:\t       0 kB\nVmRSS:\t  500000 kB\nThreads:\t9\n"
    assert amounts(status, PROCESS_MEMORY) == {"resident": 512000000, "locked": 0, "pinned": 307200000}


@given(st.text(max_size=300) | st.sampled_from(["\u00b2", "MemTotal: \u00b2 kB", "inactive_file \u00b2"]))
def test_any_text_is_read_without_an_error(text):
    assert amounts(text, HOST_MEMORY) is not None
    assert limit(text) is None or limit(text) >= 0
    statistic(text, "inactive_file")


def test_pressure_as_shares_and_seconds():
    found = pressure(PSI)
    assert found["some"].shares == {"10s": 0.125, "60s": 0.03, "300s": 0.001}
    assert found["some"].seconds == 2.5
    assert found["full"].seconds == 0.001
    assert pressure("") == {}


def test_a_process_sits_in_the_unified_hierarchy_or_in_the_memory_controllers():
    assert cgroup_paths("0::/kubepods/pod1\n") == CgroupPaths("/kubepods/pod1", None)
    assert cgroup_paths("9:name=systemd:/\n4:memory:/pod1\n3:cpuset:/\n0::/\n") == CgroupPaths("/", "/pod1")
    assert cgroup_paths("5:cpu,memory:/a:b\n") == CgroupPaths(None, "/a:b")


def test_no_limit_is_none_in_both_versions():
    assert limit("max\n") is None
    assert limit("9223372036854771712\n") is None
    assert limit("1073741824\n") == 1 << 30
