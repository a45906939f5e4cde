"""L3 attached to a real engine with two ranks and detached again, by the command."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from hicache_proof.demo.engine import Engine, EngineSpec

from .conftest import Engines
from .driver import ask, prompt

pytestmark = [pytest.mark.engine, pytest.mark.timeout(600)]  # with two ranks, and perhaps the end of all engines
KEY = "s3cret"


@pytest.fixture
def engine(engines: Engines, tmp_path_factory: pytest.TempPathFactory) -> Engine:
    folder = tmp_path_factory.mktemp("l3")
    variables = {"SGLANG_HICACHE_FILE_BACKEND_STORAGE_DIR": str(folder)}
    return engines(EngineSpec(tp_size=2, variables=variables, arguments=("--admin-api-key", KEY)))


def storage(engine: Engine, key: Path, action: str, *arguments: str) -> tuple[int, dict[str, Any]]:
    command = [sys.executable, "-m", "hicache_exporter.cli", "storage", action, "--engine", engine.url, "--json"]
    given = ["--ring-dir", str(engine.rings), "--admin-key-file", str(key), *arguments]
    done = subprocess.run([*command, *given], capture_output=True, text=True, timeout=120, check=False)
    return done.returncode, json.loads(done.stdout)


def test_l3_is_attached_and_detached_in_every_rank(engine: Engine, tmp_path: Path) -> None:
    key = tmp_path / "key"
    key.write_text(KEY)
    code, report = storage(engine, key, "attach", "--backend", "nosuch")
    assert (code, report["state"]) == (1, "detached")
    assert [rank["succeeded"] for rank in report["facts"]["ranks"]] == [False, False]

    code, report = storage(engine, key, "attach", "--backend", "file")
    assert (code, report["says"]) == (0, "L3 is attached, seen in all 2 ranks that record")
    ask(engine, prompt("l3", 400))  # its backup to L3 is under way, and keeps the engine from a switch
    code, report = storage(engine, key, "detach")
    assert (code, report["says"]) == (0, "L3 is detached, seen in all 2 ranks that record")
    code, report = storage(engine, key, "status")
    assert (code, report["state"], report["facts"]["frontend"]["hicache_storage_backend"]) == (0, "detached", None)
