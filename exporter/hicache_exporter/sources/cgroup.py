"""Memory of a process's cgroup, version 2 or 1: what is used, what is allowed, how much room is left."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import NamedTuple

from hicache_exporter.core.proc_text import cgroup_paths, limit, statistic
from hicache_exporter.sources.small_file import read_text


class CgroupMemory(NamedTuple):
    """Bytes. ``limit`` and ``high`` None: none set. ``headroom``: what may still be allocated before the tightest
    limit of the group and its ancestors, counting cached file pages as free; None: no limit anywhere.
    """

    version: int
    current: int
    limit: int | None
    high: int | None
    headroom: int | None


class _Files(NamedTuple):
    version: int
    mount: str
    current: str
    limit: str
    high: str | None
    reclaimable: str


_V2 = _Files(2, "sys/fs/cgroup", "memory.current", "memory.max", "memory.high", "inactive_file")
_V1 = _Files(1, "sys/fs/cgroup/memory", "memory.usage_in_bytes", "memory.limit_in_bytes", None, "total_inactive_file")


class Cgroups:
    """The groups of one moment: processes of one engine are in the same one, and it is read once."""

    def __init__(self, root: Path) -> None:
        """``root`` is / or a copy of it."""
        self._root = root
        self._known: dict[str, CgroupMemory | None] = {}

    def of(self, pid: int | str = "self") -> CgroupMemory | None:
        """None: not accounted, or not visible from here."""
        try:
            text = read_text(os.path.join(self._root, "proc", str(pid), "cgroup"))
        except OSError:
            return None
        if text not in self._known:
            self._known[text] = _account(self._root, text)
        return self._known[text]


def _account(root: Path, text: str) -> CgroupMemory | None:
    paths = cgroup_paths(text)
    for files, path in ((_V2, paths.v2), (_V1, paths.v1)):
        if path is not None and ".." not in PurePosixPath(path).parts:
            found = _read(root / files.mount, path, files)
            if found is not None:
                return found
    return None


def _read(mount: Path, path: str, files: _Files) -> CgroupMemory | None:
    """The group itself where it can be seen, or the mount's own top: in a container that is the container's group."""
    own = mount / path.lstrip("/")
    folder = own if (own / files.current).is_file() else mount
    try:
        current = int(read_text(folder / files.current))
    except (OSError, ValueError):
        return None
    high = _limit(folder / files.high) if files.high else None
    rooms = [room for group in _lineage(folder, mount) if (room := _room(group, files)) is not None]
    return CgroupMemory(
        files.version, current, _limit(folder / files.limit), high, max(0, min(rooms)) if rooms else None
    )


def _lineage(folder: Path, mount: Path) -> Iterator[Path]:
    yield folder
    while folder != mount:
        folder = folder.parent
        yield folder


def _room(group: Path, files: _Files) -> int | None:
    most = _limit(group / files.limit)
    if most is None:
        return None
    try:
        used = int(read_text(group / files.current))
        cached = statistic(read_text(group / "memory.stat"), files.reclaimable) or 0
    except (OSError, ValueError):
        return None
    return most - used + cached


def _limit(file: Path) -> int | None:
    try:
        return limit(read_text(file))
    except OSError:
        return None
