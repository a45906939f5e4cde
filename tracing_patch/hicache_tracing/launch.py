"""``hicache-witness launch -- COMMAND``: start an engine with the plugin attached, whatever its version.

Standard library only: it runs in the engine's environment. The command replaces this process, so signals, exit code
and output are the engine's own.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

USAGE = """usage: hicache-witness launch [--dir FOLDER] [--content off|sampled|full] -- COMMAND [ARGUMENT ...]

Starts COMMAND with the tracing plugin attached to every SGLang scheduler below it.

  --dir FOLDER     where the flight recorder writes (default /dev/shm/hicache-witness)
  --content MODE   compare KV rows after a load-back with those backed up (default off)

example:
  hicache-witness launch -- python -m sglang.launch_server --model-path MODEL --enable-hierarchical-cache
"""

OPTIONS = {"--dir": "HICACHE_WITNESS_DIR", "--content": "HICACHE_WITNESS_CONTENT"}
MODES = ("off", "sampled", "full")


def environment(base: Mapping[str, str]) -> dict[str, str]:
    """The environment in which spawned processes attach the plugin: the switch, and our sitecustomize in front."""
    site = str(Path(__file__).parent / "launch_site")
    rest = base.get("PYTHONPATH")
    return {**base, "HICACHE_WITNESS": "1", "PYTHONPATH": os.pathsep.join([site, rest] if rest else [site])}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; returns only if it cannot be started (2 wrong usage, 127 no such command)."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    settings: dict[str, str] = {}
    while words and words[0] != "--":
        word = words.pop(0)
        if word in ("-h", "--help"):
            print(USAGE, end="")
            return 0
        name, _, value = word.partition("=")
        if name not in OPTIONS:
            break
        if not value and words:
            value = words.pop(0)
        if name == "--content" and value not in MODES:
            print(f"hicache-witness launch: --content is off, sampled or full, not {value!r}", file=sys.stderr)
            return 2
        settings[OPTIONS[name]] = value
    command = words[1:] if words[:1] == ["--"] else []
    if not command:
        print("hicache-witness launch: put the engine's command after --\n\n" + USAGE, file=sys.stderr, end="")
        return 2
    program = shutil.which(command[0])
    if program is None:
        print(f"hicache-witness launch: {command[0]}: no such command", file=sys.stderr)
        return 127
    return os.execve(program, command, {**environment(os.environ), **settings})


if __name__ == "__main__":
    sys.exit(main())
