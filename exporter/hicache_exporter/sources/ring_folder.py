"""The folder in which engine processes leave their rings: which there are, which are refused and why."""

from __future__ import annotations

import logging
import os
import stat

from hicache_exporter.sources.ring import Ring
from hicache_exporter.sources.ring_file import RingRefusedError

log = logging.getLogger(__name__)

MAX_RINGS = 1024


class RingFolder:
    """Follows one folder. ``scan`` opens what is new and drops what is gone; nothing is ever written or removed."""

    def __init__(self, path: str, owner: int | None = None) -> None:
        self.path = path
        self.owner = os.geteuid() if owner is None else owner
        self.rings: dict[str, Ring] = {}
        self.refused: dict[str, RingRefusedError] = {}
        self.trouble: RingRefusedError | None = None
        """Why the folder itself is not read; None also while it does not exist yet."""
        self._seen_mtime = -1

    def changed(self) -> bool:
        """A cheap look at whether files came or went since the last scan (an extra scan a second catches the rest)."""
        try:
            return os.lstat(self.path).st_mtime_ns != self._seen_mtime
        except OSError:
            return bool(self.rings)

    def scan(self) -> list[Ring]:
        """Open the rings that are new. Returns those whose file is gone, already closed."""
        before, self.trouble = self.trouble, None
        try:
            names = self._open_new()
        except RingRefusedError as reason:
            self.trouble, names = reason, set()
            if str(reason) != str(before):
                log.warning("no recorder is read: %s", reason)
        gone = [name for name in self.rings if name not in names]
        self.refused = {name: reason for name, reason in self.refused.items() if name in names}
        return [self.drop(name) for name in gone]

    def drop(self, name: str, reason: RingRefusedError | None = None) -> Ring:
        """Close a ring; with a reason its file is refused from now on."""
        ring = self.rings.pop(name)
        ring.close()
        if reason is not None:
            self.refused[name] = reason
        return ring

    def _open_new(self) -> set[str]:
        try:
            folder = os.open(self.path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        except FileNotFoundError:
            return set()
        except OSError as error:
            raise _refused_folder(self.path, error) from error
        try:
            info = os.fstat(folder)
            self._check(info)
            self._seen_mtime = info.st_mtime_ns
            names = {name for name in os.listdir(folder) if name.endswith(".ring")}
            for name in sorted(names - self.rings.keys()):
                if name not in self.refused or self.refused[name].reason != "damaged":
                    self._open(name, folder)
        finally:
            os.close(folder)
        return names

    def _open(self, name: str, folder: int) -> None:
        try:
            if len(self.rings) >= MAX_RINGS:
                raise RingRefusedError("too_many", f"more than {MAX_RINGS} rings in {self.path}")
            self.rings[name] = Ring(name, folder, self.owner)
        except RingRefusedError as reason:
            self.refused[name] = reason  # tried again: its writer may still be making it
        else:
            self.refused.pop(name, None)

    def _check(self, info: os.stat_result) -> None:
        if info.st_uid != self.owner:
            raise RingRefusedError(
                "foreign_owner",
                f"{self.path} belongs to uid {info.st_uid}: run the sidecar as that user, not as uid {self.owner}",
            )
        if info.st_mode & 0o022:
            mode = stat.S_IMODE(info.st_mode)
            raise RingRefusedError("open_to_others", f"{self.path} may be written by others (mode {mode:o})")


def _refused_folder(path: str, error: OSError) -> RingRefusedError:
    if os.path.islink(path):
        return RingRefusedError("symlink", f"{path} is a symbolic link")
    remedy = ": run the sidecar as the user that runs the engine" if isinstance(error, PermissionError) else ""
    return RingRefusedError("unreadable", f"{path}: {error.strerror}{remedy}")
