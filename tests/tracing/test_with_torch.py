"""Runs ``with_torch/`` in the engine's Python: real tensors, as the engine has them, and no torch in our own."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from .elsewhere import environment

FOLDER = Path(__file__).parent / "with_torch"
PYTEST = """
import sys
sys.path.append(sys.argv.pop(1))  # our pytest and hypothesis, behind everything that the engine brings
import pytest
sys.exit(pytest.main(sys.argv[1:]))
"""


@pytest.mark.engine
@pytest.mark.parametrize("file", sorted(path.name for path in FOLDER.glob("test_*.py")))
def test_with_real_tensors(file):
    from hicache_proof.demo.environment import ensure

    ours = str(Path(pytest.__file__).parents[1])
    options = ["-q", "-s", "-p", "no:cacheprovider", "-c", "/dev/null", "--rootdir", str(FOLDER)]
    done = subprocess.run(
        [ensure().python, "-c", PYTEST, ours, *options, "--import-mode=importlib", str(FOLDER / file)],
        env=environment(),
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    print(done.stdout)
    assert done.returncode == 0, done.stdout[-8000:] + done.stderr[-2000:]
    assert " passed" in done.stdout
