"""Another local user wants at the ring folder: he reads nothing, moves nothing, and what he plants is not followed."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from .fake_engine import FakeEngine, RealSidecar, ring_writer

NOBODY = 65534
SYSTEM_PYTHON = ("/usr/bin/python3",)
pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root may become another user")
Attack = Callable[[str], subprocess.CompletedProcess[str]]


def may_run(python: str) -> bool:
    """Root's own Python may lie where nobody else comes."""
    command = [python, "-I", "-S", "-c", "pass"]
    try:
        return subprocess.run(command, user=NOBODY, group=NOBODY, extra_groups=[], check=False).returncode == 0
    except OSError:
        return False


@pytest.fixture
def shared() -> Path:
    """A folder that everybody may write into, like /dev/shm. Not below tmp_path: that is root's alone."""
    folder = Path("/dev/shm") / f"hicache-attack-{os.getpid()}"
    folder.mkdir()
    folder.chmod(0o1777)
    yield folder
    subprocess.run(["rm", "-rf", str(folder)], check=True)


@pytest.fixture
def attack(shared: Path) -> Attack:
    """Runs Python code as nobody, in the shared folder; its error is the last line on stderr."""
    python = next((path for path in (sys.executable, *SYSTEM_PYTHON) if may_run(path)), None)
    if python is None:
        pytest.skip("nobody may not run a Python here")

    def run(code: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [python, "-I", "-S", "-c", f"import os\n{code}"],
            cwd=shared,
            user=NOBODY,
            group=NOBODY,
            extra_groups=[],
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )

    return run


@pytest.mark.parametrize(
    "code",
    [
        "os.listdir('witness')",
        "os.rename('witness', 'mine')",
        "os.rmdir('witness')",
        "os.chmod('witness', 0o777)",
        "os.symlink('/etc', 'witness/1-1.ring')",
        "open('witness/{ring}', 'rb')",
        "open('witness/{ring}', 'r+b')",
        "os.unlink('witness/{ring}')",
        "os.mkfifo('witness/1-1.ring')",
    ],
)
def test_the_folder_of_a_running_engine(shared: Path, attack: Attack, tmp_path: Path, code: str) -> None:
    engine = FakeEngine(shared / "witness", tmp_path / "account", 200)
    [ring] = os.listdir(shared / "witness")
    done = attack(code.format(ring=ring))
    engine.kill()
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1].startswith("PermissionError")


@pytest.mark.parametrize(
    "plant",
    [
        "os.mkdir('witness')",
        "os.mkdir('witness', 0o777); os.chmod('witness', 0o777)",
        "os.symlink('{victim}', 'witness')",
        "open('witness', 'w')",
    ],
)
def test_a_folder_that_he_made_first_is_not_taken(shared: Path, attack: Attack, tmp_path: Path, plant: str) -> None:
    victim = tmp_path / "victim"
    victim.mkdir(mode=0o755)
    assert attack(plant.format(victim=victim)).returncode == 0
    with pytest.raises(Exception, match="folder of") as refused:
        ring_writer.Recorder(str(shared / "witness"), 1024)
    assert type(refused.value).__name__ == "RecorderError"
    assert stat.S_IMODE(victim.stat().st_mode) == 0o755, "not even its mode was changed"
    assert list(victim.iterdir()) == []


def test_his_folder_with_a_forged_ring_is_not_read(shared: Path, attack: Attack, tmp_path: Path) -> None:
    """It would be the proof of a read that never took place."""
    forged = FakeEngine(tmp_path / "forged", tmp_path / "account", 200)
    os.kill(forged.process.pid, 0)
    [ring] = (tmp_path / "forged").glob("*.ring")
    (shared / "copy").write_bytes(ring.read_bytes())
    (shared / "copy").chmod(0o644)
    assert (
        attack("os.mkdir('witness', 0o700); open('witness/1-1.ring', 'wb').write(open('copy', 'rb').read())").returncode
        == 0
    )
    assert attack("os.mkfifo('witness/2-2.ring')").returncode == 0
    sidecar = RealSidecar(shared / "witness", tmp_path / "sidecar.log")
    page = sidecar.get("/metrics").text
    sidecar.kill()
    forged.kill()
    assert "hicache_requests_total{" not in page
    assert "hicache_recorder_records_total{" not in page
    assert 'hicache_recorder_rings_refused{reason="foreign_owner"} 1.0' in page
