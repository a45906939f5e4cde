"""What figures of a process mean, wherever a benchmark or a soak takes them."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import pytest

BUSY_THREAD = """
import mmap, threading, time
def busy():
    while time.thread_time() < 0.2: pass
thread = threading.Thread(target=busy)
thread.start(); thread.join()
shared = mmap.mmap(-1, 32 << 20); shared[:] = bytes(len(shared))
print("ready", flush=True); input()
"""


@pytest.fixture
def processes(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.syspath_prepend(str(Path(__file__).parents[2] / "benchmarks"))
    import processes

    return processes


@pytest.fixture
def child():
    with subprocess.Popen(
        [sys.executable, "-c", BUSY_THREAD], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as child:
        assert child.stdout.readline() == "ready\n"
        yield child
        child.kill()


def test_the_time_of_a_thread_that_has_ended_stays(processes, child):
    assert 0.2 <= processes.cpu_seconds(child.pid) < 5
    before = processes.cpu_seconds(child.pid)
    time.sleep(0.2)
    assert processes.cpu_seconds(child.pid) - before < 0.02  # it waits


def test_memory_that_is_shared_is_not_private(processes, child):
    assert processes.rss_mib(child.pid) - processes.private_mib(child.pid) > 32


def test_of_a_process_that_is_gone_there_are_no_figures(processes, child):
    child.kill()  # not waited for: a zombie still has its folder
    time.sleep(0.1)
    for figure in (processes.rss_mib, processes.private_mib):
        with pytest.raises(ProcessLookupError, match="has ended"):
            figure(child.pid)
    child.wait()
    for figure in (processes.rss_mib, processes.cpu_seconds, processes.descriptors, processes.threads):
        with pytest.raises(OSError):  # noqa: PT011 - which of them differs
            figure(child.pid)
