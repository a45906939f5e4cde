"""Runs ``with_torch/`` in the engine's Python: real tensors, as the engine has them, and no torch in our own."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from .elsewhere import environment

WITH_TRITON = ("test_kernels.py", "test_kernels_compile.py")  # it is no part of the demo engine: in the matrix only
FOLDER = Path(__file__).parent / "with_torch"
PYTEST = """
import sys
sys.path.append(sys.argv.pop(1))  # our pytest and hypothesis, behind everything that the engine brings
import pytest
sys.exit(pytest.main(sys.argv[1:]))
"""


FILES = [
    pytest.param(path.name, marks=[pytest.mark.matrix] if path.name in WITH_TRITON else [])
    for path in sorted(FOLDER.glob("test_*.py"))
]


@pytest.mark.engine
@pytest.mark.parametrize("file", FILES)
def test_with_real_tensors(file):
    from hicache_proof.demo.environment import ensure, extra

    ours = str(Path(pytest.__file__).parents[1])
    options = ["-q", "-s", "-p", "no:cacheprovider", "-c", "/dev/null", "--rootdir", str(FOLDER)]
    done = subprocess.run(
        [ensure().python, "-c", PYTEST, ours, *options, "--import-mode=importlib", str(FOLDER / file)],
        env=environment(paths=[extra("triton")] if file in WITH_TRITON else []),
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    print(done.stdout)
    assert done.returncode == 0, done.stdout[-8000:] + done.stderr[-2000:]
    assert " passed" in done.stdout
