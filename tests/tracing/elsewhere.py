"""Python code in a process of its own: for what would outlive a test in this one."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from collections.abc import Mapping, Sequence
from pathlib import Path

SOURCES = Path(__file__).parents[2] / "tracing_patch"
TESTS = Path(__file__).parent


def python(
    code: str,
    *,
    env: Mapping[str, str] | None = None,
    paths: Sequence[Path] = (),
    executable: str = sys.executable,
    timeout: float = 60,
) -> subprocess.CompletedProcess[str]:
    """Run ``code`` (dedented) with the plugin importable and no switch set but those in ``env``."""
    return subprocess.run(
        [executable, "-c", textwrap.dedent(code)],
        env=environment(env, paths),
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
    )


def output(code: str, *, env: Mapping[str, str] | None = None, paths: Sequence[Path] = (), timeout: float = 60) -> str:
    """What ``code`` prints; it must end well and leave nothing on stderr."""
    done = python(code, env=env, paths=paths, timeout=timeout)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    return done.stdout.strip()


def environment(extra: Mapping[str, str] | None = None, paths: Sequence[Path] = ()) -> dict[str, str]:
    base = {name: value for name, value in os.environ.items() if not name.startswith("HICACHE_")}
    path = os.pathsep.join(map(str, [*paths, SOURCES]))
    return {**base, "PYTHONPATH": path, "PYTHONDONTWRITEBYTECODE": "1", **(extra or {})}
