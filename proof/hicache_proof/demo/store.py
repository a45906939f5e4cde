"""The cache folder outside the checkout. What lies there under its final name is whole, or it does not lie there."""

from __future__ import annotations

import fcntl
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from hicache_proof.demo.errors import SetupError

Say = Callable[[str], None]
"""Takes one line of progress for a person to read."""


def cache_root() -> Path:
    """``$HICACHE_WITNESS_CACHE``, else ``hicache-witness`` in the user's cache folder."""
    own = os.environ.get("HICACHE_WITNESS_CACHE")
    if own:
        return Path(own).expanduser().resolve()
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache").expanduser() / "hicache-witness"


@contextmanager
def usable(root: Path) -> Iterator[Path]:
    """What the operating system refuses in it becomes a SetupError."""
    try:
        yield root
    except OSError as error:
        raise SetupError(
            f"the cache folder {root} can't be used ({error.strerror or error}); set HICACHE_WITNESS_CACHE to a folder "
            "that you may write, with 2.5 GB to spare"
        ) from None


def build_once(folder: Path, build: Callable[[Path], None], say: Say) -> Path:
    """``folder``, built by ``build(scratch folder)`` if it is not there yet.

    The scratch folder lies beside it and takes the final name only when ``build`` has returned. Of several processes
    that want the same folder one builds; the others wait for it.
    """
    if folder.is_dir():
        return folder
    folder.parent.mkdir(parents=True, exist_ok=True)
    with _locked(folder, say):
        if not folder.is_dir():
            scratch = folder.with_name(folder.name + ".building")
            shutil.rmtree(scratch, ignore_errors=True)  # of a build that was interrupted: we hold the lock
            scratch.mkdir()
            try:
                build(scratch)
            except BaseException:
                shutil.rmtree(scratch, ignore_errors=True)
                raise
            scratch.rename(folder)
    return folder


@contextmanager
def _locked(folder: Path, say: Say) -> Iterator[None]:
    with open(folder.with_name(folder.name + ".lock"), "w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say(f"another process is building {folder.name}: waiting for it")
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield
