"""Where the ring lives: a private folder of this user, room taken in full at the start, or no ring at all."""

from __future__ import annotations

import errno
import fcntl
import logging
import os
import stat
from pathlib import Path

import pytest

from hicache_tracing import ring_file
from hicache_tracing.config import Settings
from hicache_tracing.recorder import Recorder
from hicache_tracing.ring_file import KEEP_DEAD, RecorderError
from hicache_tracing.session import Session

from .elsewhere import python
from .mounts import tmpfs
from .ring import read

SLOTS = 1024


def mode(path: str | Path) -> int:
    return stat.S_IMODE(os.lstat(path).st_mode)


def rings(folder: Path) -> set[str]:
    return {path.name for path in folder.glob("*.ring")}


class TestFolder:
    def test_is_made_private_and_so_is_the_ring(self, tmp_path):
        recorder = Recorder(str(tmp_path / "deep" / "witness"), SLOTS)
        assert mode(tmp_path / "deep" / "witness") == 0o700
        assert mode(recorder.path) == 0o600

    def test_of_ours_that_is_open_to_others_is_closed(self, tmp_path):
        tmp_path.chmod(0o777)
        Recorder(str(tmp_path), SLOTS)
        assert mode(tmp_path) == 0o700

    def test_that_is_a_symbolic_link_is_refused(self, tmp_path):
        (tmp_path / "elsewhere").mkdir()
        (tmp_path / "witness").symlink_to(tmp_path / "elsewhere")
        with pytest.raises(RecorderError, match="not a folder of this user"):
            Recorder(str(tmp_path / "witness"), SLOTS)
        assert not rings(tmp_path / "elsewhere")

    def test_that_is_a_dangling_link_or_a_file_is_refused(self, tmp_path):
        (tmp_path / "link").symlink_to(tmp_path / "nowhere")
        (tmp_path / "file").touch()
        for name in ("link", "file"):
            with pytest.raises(RecorderError, match="set HICACHE_WITNESS_DIR"):
                Recorder(str(tmp_path / name), SLOTS)

    def test_of_somebody_else_is_refused(self, tmp_path, monkeypatch):
        monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)
        with pytest.raises(RecorderError, match="not a folder of this user"):
            Recorder(str(tmp_path), SLOTS)

    def test_that_cannot_be_made_is_named(self):
        with pytest.raises(RecorderError, match="/proc/nowhere: No such file or directory; set HICACHE_WITNESS_DIR"):
            Recorder("/proc/nowhere", SLOTS)

    @pytest.mark.parametrize("call", ["makedirs", "lstat", "chmod", "open", "statvfs"])
    def test_whatever_the_system_refuses_is_one_error_of_ours(self, tmp_path, monkeypatch, call):
        tmp_path.chmod(0o755)

        def refused(*_args, **_kwargs):
            raise OSError(errno.EROFS, "Read-only file system")

        monkeypatch.setattr(os, call, refused)
        with pytest.raises(RecorderError, match="Read-only file system"):
            Recorder(str(tmp_path), SLOTS)


class TestRoom:
    def test_is_allocated_before_the_first_record(self, tmp_path):
        """A write to a hole of a full tmpfs would kill the engine with SIGBUS."""
        path = Recorder(str(tmp_path), SLOTS).path
        assert os.stat(path).st_blocks * 512 >= 65536 + SLOTS * 128

    @pytest.mark.parametrize("kept", [0, 4096 * 4])
    def test_that_is_not_there_leaves_no_file_behind(self, tmp_path, monkeypatch, kept):
        def full(descriptor, _offset, _size):
            os.ftruncate(descriptor, kept)
            raise OSError(errno.ENOSPC, "No space left on device")

        monkeypatch.setattr(os, "posix_fallocate", full)
        with pytest.raises(RecorderError, match=r"no room for a ring of 0\.2 MiB in .*No space.*HICACHE_WITNESS_SLOTS"):
            Recorder(str(tmp_path), SLOTS)
        assert not rings(tmp_path)

    def test_that_cannot_be_mapped_leaves_no_file_behind(self, tmp_path, monkeypatch):
        def refused(*_args, **_kwargs):
            raise OSError(errno.ENOMEM, "Cannot allocate memory")

        monkeypatch.setattr(ring_file.mmap, "mmap", refused)
        with pytest.raises(RecorderError, match="Cannot allocate memory"):
            Recorder(str(tmp_path), SLOTS)
        assert not rings(tmp_path)

    def test_beyond_the_limit_on_file_sizes_is_refused_by_the_kernel(self, tmp_path):
        done = python(
            f"""
            import resource
            from hicache_tracing.recorder import Recorder
            from hicache_tracing.ring_file import RecorderError
            resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))
            try:
                Recorder({str(tmp_path)!r}, 1024)
            except RecorderError as error:
                print(error)
            """
        )
        assert "File too large" in done.stdout
        assert not rings(tmp_path)

    def test_is_at_most_an_eighth_of_what_is_left(self, tmp_path, monkeypatch):
        """The engine's own shared memory (NCCL, worker queues) lives in the same place, often in 64 MiB."""
        size = 65536 + SLOTS * 128
        monkeypatch.setattr(os, "statvfs", lambda _: _Room(8 * size))
        Recorder(str(tmp_path), SLOTS)
        monkeypatch.setattr(os, "statvfs", lambda _: _Room(8 * size - 1))
        with pytest.raises(RecorderError, match="more than an eighth of the 1 MiB left"):
            Recorder(str(tmp_path), SLOTS)
        assert len(rings(tmp_path)) == 1

    def test_of_a_small_tmpfs_is_never_used_up(self, tmp_path):
        with tmpfs(tmp_path, "size=4m"):
            made = []
            with pytest.raises(RecorderError):
                made.extend(Recorder(str(tmp_path / "witness"), SLOTS) for _ in range(100))
            free = os.statvfs(tmp_path)
            assert free.f_bavail * free.f_frsize > 1 << 20
            assert len(rings(tmp_path / "witness")) > 4


class TestSilence:
    """Without a ring the engine runs on, the log has one line, and no seam does anything any more."""

    @pytest.mark.parametrize("trouble", ["no room", "read only", "bug"])
    def test_says_why_once(self, tmp_path, monkeypatch, caplog, trouble):
        error = {
            "no room": RecorderError("no room for a ring"),
            "read only": RecorderError("read-only"),
            "bug": ValueError("unexpected"),
        }[trouble]

        def refuse(*_):
            raise error

        monkeypatch.setattr("hicache_tracing.session.Recorder", refuse)
        session = Session(Settings(folder=str(tmp_path), capacity=SLOTS))
        seams = [session.new_seam(f"seam {i}") for i in range(3)]
        with caplog.at_level(logging.DEBUG):
            session.open()
            session.identify(object())
            session.write(1, session.key("a request"), 1, 2, extra=b"x")
            session.close()
        assert [record.getMessage() for record in caplog.records] == [
            f"hicache-witness: not recording: {error if isinstance(error, RecorderError) else repr(error)}"
        ]
        assert not any(seam.on for seam in seams)

    def test_missing_shared_memory(self, caplog):
        session = Session(Settings(folder="/proc/dev/shm/hicache-witness", capacity=SLOTS))
        seam = session.new_seam("seam")
        session.open()
        assert len(caplog.records) == 1
        assert not seam.on


class TestOldRings:
    """What dead processes left is evidence: the newest stay. What a living one writes is never touched."""

    def test_the_newest_of_the_dead_stay(self, tmp_path):
        for i in range(KEEP_DEAD + 3):
            (tmp_path / f"{100 + i}-{1000 + i}.ring").touch()
        Recorder(str(tmp_path), SLOTS)
        left = sorted(int(name.partition("-")[0]) for name in rings(tmp_path))
        assert left[:-1] == [103 + i for i in range(KEEP_DEAD)]

    def test_a_living_writer_keeps_its_ring_however_old_and_whatever_its_pid_seems(self, tmp_path):
        """In another container the same pid may be dead, or somebody else's: the lock on the file is what counts."""
        old = Recorder(str(tmp_path), SLOTS)
        renamed = tmp_path / "4194305-1.ring"  # no process has this pid; no ring is older
        os.rename(old.path, renamed)
        for i in range(KEEP_DEAD + 5):
            (tmp_path / f"1-{2000 + i}.ring").touch()  # pid 1 lives, but wrote none of these
        Recorder(str(tmp_path), SLOTS)
        assert renamed.name in rings(tmp_path)
        assert len(rings(tmp_path)) == 1 + KEEP_DEAD + 1

    def test_the_lock_lasts_as_long_as_the_process(self, tmp_path):
        recorder = Recorder(str(tmp_path), SLOTS)
        with open(recorder.path, "rb") as file, pytest.raises(BlockingIOError):
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        done = python(
            f"""
            import os, signal
            from hicache_tracing.recorder import Recorder
            print(Recorder({str(tmp_path)!r}, 1024).path, flush=True)
            os.kill(os.getpid(), signal.SIGKILL)
            """
        )
        with open(done.stdout.strip(), "rb") as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)

    @pytest.mark.parametrize("looks", [1, 1000])
    def test_a_rank_that_looks_at_the_new_file_at_that_moment_is_waited_for_a_little(
        self, tmp_path, monkeypatch, looks
    ):
        """Ranks start together, and each one asks of every file whether its writer lives."""
        real, seen = fcntl.flock, []

        def flock(descriptor, how):
            seen.append(how)
            if len(seen) <= looks:
                raise BlockingIOError(errno.EAGAIN, "Resource temporarily unavailable")
            real(descriptor, how)

        monkeypatch.setattr(ring_file.fcntl, "flock", flock)
        if looks == 1:
            assert read(Recorder(str(tmp_path), SLOTS).path).head == 0
        else:
            with pytest.raises(RecorderError, match="another process holds the new file's lock"):
                Recorder(str(tmp_path), SLOTS)
            assert not rings(tmp_path)
            assert len(seen) <= 100

    def test_other_files_and_links_stay(self, tmp_path):
        (tmp_path / "target").touch()
        strange = ["notes.txt", "x-1.ring", "1-x.ring", "1.ring", ".ring"]
        for name in strange:
            (tmp_path / name).touch()
        for i in range(KEEP_DEAD + 2):
            (tmp_path / f"7-{i}.ring").symlink_to(tmp_path / "target")
        Recorder(str(tmp_path), SLOTS)
        assert set(strange) <= {path.name for path in tmp_path.iterdir()}
        assert (tmp_path / "target").exists()
        assert (tmp_path / "7-0.ring").is_symlink()

    def test_a_folder_that_cannot_be_listed_is_no_reason_not_to_record(self, tmp_path, monkeypatch):
        monkeypatch.setattr(ring_file.os, "listdir", lambda _: (_ for _ in ()).throw(PermissionError()))
        assert read(Recorder(str(tmp_path), SLOTS).path).head == 0


class _Room:
    def __init__(self, free: int) -> None:
        self.f_bavail, self.f_frsize = free, 1
