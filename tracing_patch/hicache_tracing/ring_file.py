"""Where a ring lives: a private folder, its room taken in full at the start; what the dead left is kept in bounds."""

from __future__ import annotations

import errno
import fcntl
import mmap
import os
import stat
from contextlib import suppress
from time import sleep

KEEP_DEAD = 8  # rings of dead processes kept as evidence; older ones are removed when a new ring opens
SHARE = 8  # a ring takes at most an eighth of the room that is left: the engine needs its shared memory more


class RecorderError(Exception):
    """The ring cannot be had here; the text says why and what to do."""


def own_folder(folder: str) -> None:
    """A private folder of this user, made if there is none. Raises RecorderError."""
    try:
        os.makedirs(folder, mode=0o700, exist_ok=True)
        info = os.lstat(folder)
        if not stat.S_ISDIR(info.st_mode) or info.st_uid != os.geteuid():
            raise RecorderError(f"{folder} is not a folder of this user; set HICACHE_WITNESS_DIR to one")
        if info.st_mode & 0o077:
            os.chmod(folder, 0o700)
    except OSError as error:
        raise RecorderError(f"{folder}: {error.strerror}; set HICACHE_WITNESS_DIR to a folder of yours") from error


def create(path: str, size: int) -> mmap.mmap:
    """The new file, its blocks allocated, mapped. Its lock tells everyone that its writer lives; it goes when the
    process does. Raises RecorderError.
    """
    folder = os.path.dirname(path)
    try:
        room = os.statvfs(folder)
        if size > room.f_bavail * room.f_frsize // SHARE:
            raise OSError(errno.ENOSPC, f"more than an eighth of the {room.f_bavail * room.f_frsize >> 20} MiB left")
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        try:
            _lock(descriptor)
            os.posix_fallocate(descriptor, 0, size)
            return mmap.mmap(descriptor, size, flags=mmap.MAP_SHARED | getattr(mmap, "MAP_POPULATE", 0))
        except OSError:
            os.unlink(path)
            raise
        finally:
            os.close(descriptor)  # the map keeps one of its own
    except OSError as error:
        raise RecorderError(
            f"no room for a ring of {size / (1 << 20):.1f} MiB in {folder} ({error.strerror}); "
            "set HICACHE_WITNESS_SLOTS lower or HICACHE_WITNESS_DIR elsewhere"
        ) from error


def _lock(descriptor: int) -> None:
    """Take the lock of a new file. Another rank that starts at this moment may hold it while it looks who lives: for
    an instant, and never longer than it takes to close the file again. Raises OSError after a tenth of a second.
    """
    for _ in range(100):
        with suppress(BlockingIOError):
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        sleep(0.001)
    raise OSError(errno.EAGAIN, "another process holds the new file's lock")


def remove_old(folder: str) -> None:
    """Keep the newest rings of dead processes as evidence, remove the rest."""
    dead = []
    with suppress(OSError):
        for name in os.listdir(folder):
            pid, _, created = name.removesuffix(".ring").partition("-")
            if name.endswith(".ring") and pid.isdecimal() and created.isdecimal():
                path = os.path.join(folder, name)
                if not _written(path):
                    dead.append((int(created), path))
    for _, path in sorted(dead)[:-KEEP_DEAD]:
        with suppress(OSError):
            os.unlink(path)


def _written(path: str) -> bool:
    """Whether a living process writes this ring: it holds the lock. (Its pid says nothing in another pid namespace.)"""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return True  # not to be judged: let it be
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        return True
    finally:
        os.close(descriptor)
    return False
