"""The living processes of a process group, from /proc."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple


class Process(NamedTuple):
    pid: int
    title: str
    """Command line, or what the process calls itself."""


def group_members(group: int) -> list[Process]:
    """In the order of their ids; zombies are left out. Group 0, of a server that was never started, has none: in /proc
    it is that of processes from outside our own namespace.
    """
    members: list[Process] = []
    if group == 0:
        return members
    for folder in Path("/proc").iterdir():
        if not folder.name.isdigit():
            continue
        try:
            # "pid (name) state parent group ...": the name may hold anything, a bracket too
            state, _, its_group = (folder / "stat").read_text().rpartition(")")[2].split()[:3]
            title = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace").strip()
        except (FileNotFoundError, ProcessLookupError):  # it has just ended
            continue
        if int(its_group) == group and state != "Z":
            members.append(Process(int(folder.name), title))
    return sorted(members)
