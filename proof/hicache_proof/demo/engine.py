"""Starts and ends a real SGLang server on this machine. Whatever happens to us, the server does not outlive us."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from pathlib import Path
from types import TracebackType

from hicache_proof.demo import environment, leash
from hicache_proof.demo.answering import answers
from hicache_proof.demo.errors import EngineError
from hicache_proof.demo.plugin_path import make_plugin_paths
from hicache_proof.demo.ports import free_port
from hicache_proof.demo.processes import group_members
from hicache_proof.demo.scratch import make_scratch
from hicache_proof.demo.spec import EngineSpec, environment_variables, server_arguments
from hicache_proof.demo.store import Say

__all__ = ["Engine", "EngineError", "EngineSpec"]

START_DEADLINE = 240.0


class Engine:
    """One server: ``with Engine(spec, folder) as engine: ...`` starts it, waits until it serves, and ends it.

    ``folder`` gets ``engine.log`` and stays; ring files lie in ``rings`` until ``close``.
    """

    def __init__(self, spec: EngineSpec, folder: Path, say: Say | None = None) -> None:
        self.spec = spec
        self.log = folder / "engine.log"
        self.port = 0
        self.rings = Path()
        self._scratch: Path | None = None
        self._folder = folder
        self._say = say
        self._leash: subprocess.Popen[str] | None = None
        self._group = 0
        self._closed = False

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def alive(self) -> bool:
        return self._leash is not None and self._leash.poll() is None

    @property
    def ended(self) -> str | None:
        """Of a started one that nobody stopped: that it ended all the same, and how. None: it runs."""
        code = self._leash.poll() if self._leash is not None else None
        return None if code is None else f"SGLang {self.spec.version} ended with exit code {code}. {self._last_words()}"

    @property
    def pids(self) -> list[int]:
        """All processes of the server."""
        return [process.pid for process in group_members(self._group)]

    @property
    def scheduler_pids(self) -> list[int]:
        """One a rank; these are the processes that write rings."""
        return [process.pid for process in group_members(self._group) if "sglang::scheduler" in process.title]

    def start(self, deadline: float = START_DEADLINE) -> Engine:
        """Start and wait until requests are served. Raises EngineError, or SetupError of the environment."""
        try:
            self._launch()
            self._wait(time.monotonic() + deadline)
        except BaseException as error:
            closed = self._closed  # by another thread, and its folders with it
            self.close()
            if closed and isinstance(error, OSError):
                raise self._closed_meanwhile() from error
            raise
        return self

    def stop(self) -> None:
        """End it in good order within seconds. Ring files stay until ``close``."""
        self._end("")

    def kill(self) -> None:
        """SIGKILL all of its processes at once, as a crash would."""
        self._end("9")

    def close(self) -> None:
        """For good. A ``start`` that is still at work in another thread gives up."""
        self._closed = True
        self.stop()
        if self._scratch is not None:
            shutil.rmtree(self._scratch, ignore_errors=True)

    def __enter__(self) -> Engine:
        return self.start()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def _launch(self) -> None:
        installed = environment.ensure(self.spec.version, self._say)
        self._folder.mkdir(parents=True, exist_ok=True)
        self._scratch = make_scratch()
        self.rings = self._scratch / "rings"
        self.rings.mkdir(mode=0o700)
        self.port = free_port()
        plugin = make_plugin_paths(self._scratch / "plugin", installed.release.plugin_loader)
        arguments = server_arguments(self.spec, installed.release, installed.model, self.port)
        with self.log.open("w") as log:
            process = subprocess.Popen(
                [sys.executable, "-I", leash.__file__, str(installed.python), "-m", "sglang.launch_server", *arguments],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                cwd=self._folder,
                env=environment_variables(self.spec, os.environ, (*plugin, *installed.paths), self.rings),
                start_new_session=True,  # Ctrl-C is for us alone
            )
        assert process.stdout is not None
        self._group = int(process.stdout.readline() or 0)
        self._leash = process  # only now: ``close`` in another thread must not take what is half started

    def _wait(self, deadline: float) -> None:
        while time.monotonic() < deadline:
            if self._closed:
                raise self._closed_meanwhile()
            if not self.alive:
                raise EngineError(f"SGLang {self.spec.version} died at its start. {self._last_words()}")
            if answers(f"{self.url}/health_generate", 10):
                return
            time.sleep(0.25)
        raise EngineError(f"SGLang {self.spec.version} did not serve in time. {self._last_words()}")

    def _closed_meanwhile(self) -> EngineError:
        return EngineError(f"SGLang {self.spec.version} was closed while it was starting")

    def _last_words(self) -> str:
        return f"Its log, {self.log}, ends with:\n{environment.tail(self.log)}"

    def _end(self, message: str) -> None:
        process, self._leash = self._leash, None
        if process is not None:
            process.communicate(message, timeout=leash.GRACE + 30)
