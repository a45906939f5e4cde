"""The sidecar as a child process, for as long as the demo runs."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path
from types import TracebackType

from hicache_proof.demo import leash
from hicache_proof.demo.answering import answers
from hicache_proof.demo.environment import tail
from hicache_proof.demo.errors import SidecarError
from hicache_proof.demo.ports import free_port

START_DEADLINE = 30.0


class Sidecar:
    """``with Sidecar(engine.url, engine.rings, folder) as sidecar: ...``: ``folder`` gets ``sidecar.log``."""

    def __init__(self, engine_url: str, rings: Path, folder: Path) -> None:
        self.log = folder / "sidecar.log"
        self.port = free_port()
        self._engine_url = engine_url
        self._rings = rings
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def ended(self) -> str | None:
        """Of a started one that nobody closed: that it ended all the same, and how. None: it runs."""
        code = self._process.poll() if self._process is not None else None
        return None if code is None else f"the sidecar ended with exit code {code}. {self._last_words()}"

    def start(self) -> Sidecar:
        """Start and wait until it is ready. Raises SidecarError."""
        self.log.parent.mkdir(parents=True, exist_ok=True)
        with self.log.open("wb") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-I", leash.__file__, *self._command()],
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,  # the leash's line; what the sidecar says goes to stderr
                stderr=log,
                start_new_session=True,  # Ctrl-C is for us alone
            )
        self._wait(time.monotonic() + START_DEADLINE)
        return self

    def close(self) -> None:
        if self._process is None or self._process.stdin is None:
            return
        self._process.stdin.close()
        self._process.wait(timeout=leash.GRACE + 30)

    def __enter__(self) -> Sidecar:
        try:
            return self.start()
        except BaseException:
            self.close()
            raise

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def _command(self) -> list[str]:
        listen = f"127.0.0.1:{self.port}"
        serve = ["serve", "--engine", self._engine_url, "--rings", str(self._rings), "--listen", listen]
        return [sys.executable, "-m", "hicache_exporter", *serve]

    def _wait(self, deadline: float) -> None:
        while time.monotonic() < deadline:
            if self._process is not None and self._process.poll() is not None:
                raise SidecarError(f"the sidecar died at its start. {self._last_words()}")
            if answers(f"{self.url}/-/ready", 5):
                return
            time.sleep(0.1)
        raise SidecarError(f"the sidecar was not ready in {START_DEADLINE:.0f} s. {self._last_words()}")

    def _last_words(self) -> str:
        return f"Its log, {self.log}, ends with:\n{tail(self.log)}"
