"""Whole processes: switched off, forked, spawned, started by the launcher, ended in every way."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from hicache_tracing.launch import environment as launched
from hicache_tracing.records import Kind

from .elsewhere import environment, output, python
from .engines import FAKES, RELEASES, SHARED
from .mounts import tmpfs
from .ring import Ring, read


def paths(release: str) -> list[Path]:
    return [FAKES / release, SHARED]


def on(folder: Path, **more: str) -> dict[str, str]:
    return {"HICACHE_WITNESS": "1", "HICACHE_WITNESS_DIR": str(folder), "HICACHE_WITNESS_SLOTS": "1024", **more}


def rings(folder: Path) -> list[Ring]:
    return [read(path) for path in sorted(folder.glob("*.ring"))]


SERVE = """
import hicache_tracing
hicache_tracing.register()
from types import SimpleNamespace
from sglang.srt.managers.scheduler import Scheduler

def serve(rid):
    arguments = SimpleNamespace(device_tokens=1000, host_tokens=3000, hicache_write_policy="write_through")
    scheduler = Scheduler(arguments, None)
    scheduler.receive(rid, range(300))
    scheduler.step()
    return scheduler
"""


@pytest.mark.parametrize("release", RELEASES)
def test_switched_off_the_engine_is_the_engine_without_us(release):
    """Not one function differs by identity, no module of ours beyond the package is imported, no hook is in place.
    Only "1" switches on; what somebody else would take for yes does not.
    """
    assert output(
        """
        import os, sys, threading
        before = set(sys.modules), list(sys.meta_path), list(sys.path_hooks)
        import hicache_tracing

        def register():
            for value in (None, "", "0", "true", "yes", "2", " 1"):
                os.environ.pop("HICACHE_WITNESS", None)
                if value is not None:
                    os.environ["HICACHE_WITNESS"] = value
                hicache_tracing.register()

        register()
        ours = {name for name in set(sys.modules) - before[0] if "hicache" in name}
        assert ours == {"hicache_tracing"}, ours
        assert (sys.meta_path, sys.path_hooks) == before[1:]
        assert threading.active_count() == 1
        import sglang.srt.managers.scheduler

        def functions():
            for name, module in sorted(sys.modules.items()):
                if name.startswith("sglang"):
                    for value in vars(module).values():
                        yield value
                        if isinstance(value, type):
                            yield from vars(value).values()

        engine = list(functions())
        register()
        assert all(one is other for one, other in zip(engine, functions(), strict=True))
        files = {function.__code__.co_filename for function in engine if hasattr(function, "__code__")}
        assert files and not [file for file in files if "hicache" in file], files
        assert not [name for name in sys.modules if name.startswith("hicache_tracing.")]
        print("untouched")
        """,
        paths=paths(release),
    ) == "untouched"  # fmt: skip


def test_importing_the_plugin_brings_only_the_standard_library(tmp_path):
    """Torch in an engine process that does not use it (tokenizer, detokenizer) would cost seconds and gigabytes."""
    assert output(
        """
        import sys, sysconfig
        import hicache_tracing
        hicache_tracing.register()
        standard = set(sys.stdlib_module_names)
        foreign = {name.partition(".")[0] for name in sys.modules} - standard - {"hicache_tracing", "sitecustomize"}
        print(sorted(name for name in foreign if not name.startswith(("_", "usercustomize"))))
        """,
        env=on(tmp_path),
    ) == "[]"  # fmt: skip


@pytest.mark.parametrize("release", RELEASES)
class TestProcesses:
    def test_an_engine_process_that_runs_no_scheduler_opens_no_ring(self, release, tmp_path):
        assert output(SERVE + "print('imported')", env=on(tmp_path / "w"), paths=paths(release)) == "imported"
        assert not (tmp_path / "w").exists()

    def test_a_scheduler_process_records(self, release, tmp_path):
        output(SERVE + "serve('one')", env=on(tmp_path), paths=paths(release))
        [ring] = rings(tmp_path)
        assert [record.rid for record in ring.of(Kind.ADMIT)] == ["one"]
        assert ring.closed > 0

    def test_a_forked_child_writes_nothing_into_its_parents_ring(self, release, tmp_path):
        code = SERVE + (
            "import os\n"
            "scheduler = serve('parent')\n"
            "child = os.fork()\n"
            "if not child:\n"
            "    scheduler.receive('child', range(100))\n"
            "    scheduler.step()\n"
            "    scheduler.tree_cache.reset()\n"
            "    raise SystemExit(7)\n"
            "assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7\n"
            "scheduler.receive('parent again', range(50))\n"
            "scheduler.step()\n"
            "os._exit(0)\n"
        )
        output(code, env=on(tmp_path), paths=paths(release))
        [ring] = rings(tmp_path)
        assert [record.rid for record in ring.of(Kind.ADMIT)] == ["parent", "parent again"]
        assert ring.torn == []
        assert ring.dropped == 0
        assert ring.closed == 0, "the child's end is not the end of the ring"

    def test_a_child_forked_before_there_is_a_ring_has_one_of_its_own(self, release, tmp_path):
        code = SERVE + (
            "import os\n"
            "child = os.fork()\n"
            "serve('parent' if child else 'child')\n"
            "if child:\n"
            "    os.waitpid(child, 0)\n"
            "    print(os.getpid(), child)\n"
        )
        parent, child = output(code, env=on(tmp_path), paths=paths(release)).split()
        of = {ring.pid: [record.rid for record in ring.of(Kind.ADMIT)] for ring in rings(tmp_path)}
        assert of == {int(parent): ["parent"], int(child): ["child"]}

    def test_a_spawned_scheduler_has_a_ring_of_its_own(self, release, tmp_path):
        (tmp_path / "main.py").write_text(
            SERVE + "import multiprocessing, os\n"
            "if __name__ == '__main__':\n"
            "    serve('parent')\n"
            "    context = multiprocessing.get_context('spawn')\n"
            "    ranks = [context.Process(target=serve, args=(f'rank {i}',)) for i in range(2)]\n"
            "    [rank.start() for rank in ranks]\n"
            "    [rank.join() for rank in ranks]\n"
            "    print(os.getpid(), *(rank.pid for rank in ranks))\n"
        )
        done = subprocess.run(
            [sys.executable, str(tmp_path / "main.py")],
            env=environment(on(tmp_path / "w"), paths(release)),
            capture_output=True,
            text=True,
            check=True,
            timeout=60,
        )
        found = rings(tmp_path / "w")
        assert sorted(ring.pid for ring in found) == sorted(map(int, done.stdout.split()))
        assert sorted(ring.of(Kind.ADMIT)[0].rid for ring in found) == ["parent", "rank 0", "rank 1"]

    def test_started_by_the_launcher_it_needs_no_plugin_loader(self, release, tmp_path):
        """Up to 0.5.10 nobody calls register() in the spawned scheduler but Python's own start-up."""
        env = environment(on(tmp_path), paths(release))
        done = subprocess.run(
            [sys.executable, "-c", SERVE.replace("hicache_tracing.register()", "") + "serve('one')"],
            env=launched(env),
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert (done.returncode, done.stderr) == (0, "")
        assert [record.rid for record in rings(tmp_path)[0].of(Kind.ADMIT)] == ["one"]


class TestTheEnd:
    """The end of the process takes as long as without us, and leaves in the ring what was recorded."""

    ENDS = {  # noqa: RUF012
        "returns": ("", 0, True),
        "raises": ("raise RuntimeError('the engine fails')", 1, True),
        "exits": ("raise SystemExit(3)", 3, True),
        "is gone at once": ("import os; os._exit(4)", 4, False),
        "is terminated": ("import os, signal; os.kill(os.getpid(), signal.SIGTERM)", -15, False),
        "is killed": ("import os, signal; os.kill(os.getpid(), signal.SIGKILL)", -9, False),
        "aborts": ("import os; os.abort()", -6, False),
    }

    @pytest.mark.parametrize(("last", "code", "closed"), ENDS.values(), ids=ENDS.keys())
    def test_however_it_comes(self, tmp_path, last, code, closed):
        done = python(SERVE + f"serve('one')\n{last}\n", env=on(tmp_path), paths=paths("v0523"))
        assert done.returncode == code
        assert "hicache" not in done.stderr
        [ring] = rings(tmp_path)
        assert len(ring.of(Kind.ADMIT)) == 1
        assert (ring.closed > 0) is closed

    @pytest.mark.parametrize("folder", ["/dev/full/x", "/proc/missing/x", "/proc/sys/kernel"])
    def test_without_a_place_for_the_ring_is_as_quiet(self, folder):
        code = SERVE + "serve('one')\nimport threading\nprint(threading.active_count())"
        started = time.monotonic()
        done = python(code, env=on(Path(folder)), paths=paths("v0523"))
        assert time.monotonic() - started < 10
        assert (done.returncode, done.stdout) == (0, "1\n")
        [line] = done.stderr.splitlines()
        assert line.startswith("hicache-witness: not recording: ")
        assert "; set HICACHE_WITNESS_" in line

    @pytest.mark.parametrize("options", ["size=64k", "ro"])
    def test_on_a_file_system_that_is_full_or_read_only_too(self, tmp_path, options):
        with tmpfs(tmp_path, options):
            self.test_without_a_place_for_the_ring_is_as_quiet(tmp_path / "witness")

    def test_a_file_system_that_fills_up_later_costs_nothing(self, tmp_path):
        """Not one record: the ring has its room already. A write to a hole would be the end of the engine."""
        code = SERVE + (
            "from pathlib import Path\n"
            "scheduler = serve('first')\n"
            f"junk = open({str(tmp_path / 'junk')!r}, 'wb', buffering=0)\n"
            "try:\n"
            "    while junk.write(bytes(4096)): pass\n"
            "except OSError as full: print(full.strerror)\n"
            "for i in range(1000):\n"
            "    scheduler.receive(f'r{i}', range(300)); scheduler.step()\n"
        )
        with tmpfs(tmp_path, "size=8m"):
            done = python(code, env=on(tmp_path / "witness"), paths=paths("v0523"))
            assert (done.returncode, done.stdout, done.stderr) == (0, "No space left on device\n", "")
            [ring] = rings(tmp_path / "witness")
            assert ring.dropped == 0
            assert ring.of(Kind.ADMIT)[-1].rid == "r999"

    def test_adds_no_measurable_time(self, tmp_path):
        """Ending with an open ring against ending without us: both far below what an exporter's last flush takes."""
        timed = SERVE + "scheduler = serve('one')\nimport time, sys\nsys.stdout.write(str(time.time()))"
        ends = []
        for env in (on(tmp_path), {}):
            done = python(timed, env=env, paths=paths("v0523"))
            ends.append(time.time() - float(done.stdout))
        assert max(ends) < 2


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may become another user")
def test_another_user_gets_a_refusal_and_touches_nothing(tmp_path):
    """The default folder lies where everybody may write: whoever comes first owns it, and nobody else writes there."""
    theirs = tmp_path / "hicache-witness"
    theirs.mkdir(mode=0o700)
    os.chown(theirs, 65534, 65534)
    done = python(SERVE + "serve('one')", env=on(theirs), paths=paths("v0523"))
    assert done.returncode == 0
    assert "not a folder of this user" in done.stderr
    assert list(theirs.iterdir()) == []
