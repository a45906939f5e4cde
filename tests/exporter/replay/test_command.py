"""The command as a person starts it."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path

import httpx
import pytest
from click.testing import CliRunner

from hicache_exporter.replay.command import replay
from hicache_proof.demo.ports import free_port

SESSION = Path(__file__).parents[3] / "deploy" / "sessions" / "h200.xz"


def test_a_shipped_session_is_served_until_it_is_stopped() -> None:
    listen = f"127.0.0.1:{free_port()}"
    command = [sys.executable, "-m", "hicache_exporter.cli", "replay", str(SESSION), "--speed", "50"]
    with subprocess.Popen([*command, "--listen", listen], stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == f"replaying {SESSION} (37 s a round) at http://{listen}\n"
            proofs = _proofs(f"http://{listen}")
            page = httpx.get(f"http://{listen}/", trust_env=False)
        finally:
            process.send_signal(signal.SIGTERM)
    assert process.returncode == 0
    assert page.headers["content-type"].startswith("text/html")
    assert {proof["engine"] for proof in proofs} == {"h200-tp2:30000"}


def _proofs(url: str) -> list[dict[str, str]]:
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        try:
            found = httpx.get(f"{url}/proofs", trust_env=False).json()["proofs"]
        except httpx.TransportError:
            found = []
        if found:
            return found
        time.sleep(0.05)
    raise AssertionError("nothing was judged")


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        (["{gone}"], 2, "does not exist"),
        (["{text}"], 1, "is no recorded session"),
        (["{folder}"], 1, "holds no session"),
        (["{text}", "--speed", "0"], 2, "--speed"),
        (["{text}", "--speed", "nan"], 2, "--speed"),
        (["{text}", "--listen", "nowhere"], 2, "write host:port"),
    ],
)
def test_what_can_not_be_replayed_is_one_sentence(arguments: list[str], code: int, says: str, tmp_path: Path) -> None:
    (tmp_path / "text").write_text("text")
    (tmp_path / "folder").mkdir()
    given = [argument.format(**{n: tmp_path / n for n in ("gone", "text", "folder")}) for argument in arguments]
    result = CliRunner().invoke(replay, given)
    assert result.exit_code == code
    assert says in result.output
    assert "Traceback" not in result.output
