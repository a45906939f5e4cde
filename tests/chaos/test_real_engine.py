"""The real engine without a place for its ring, and beside a sidecar that is killed: it serves, and ends at once."""

from __future__ import annotations

import re
import time
from pathlib import Path

import pytest

from hicache_proof.demo.engine import Engine, EngineSpec

from ..engine.driver import ask, evict, prompt
from ..tracing.mounts import tmpfs
from ..tracing.ring import read
from .fake_engine import RealSidecar

pytestmark = [pytest.mark.engine, pytest.mark.chaos, pytest.mark.timeout(600)]
QUICK = 10.0
"""Seconds. SGLang alone takes about one to end; an exporter that waits for its collector takes its time-out."""


def works_and_ends(engine: Engine) -> None:
    cold = ask(engine, prompt("A"))
    evict(engine, "chaos")
    assert ask(engine, prompt("A")).tokens == cold.tokens
    began = time.monotonic()
    engine.stop()
    assert time.monotonic() - began < QUICK


def lines_of_ours(engine: Engine) -> list[str]:
    return re.findall(r".*hicache-witness: not recording.*", engine.log.read_text())


@pytest.mark.parametrize("options", ["size=64k", "ro"])
def test_a_full_or_read_only_file_system(tmp_path: Path, options: str) -> None:
    place = tmp_path / "place"
    place.mkdir()
    with tmpfs(place, options):
        spec = EngineSpec(variables={"HICACHE_WITNESS_DIR": str(place / "witness")})
        with Engine(spec, tmp_path / "engine") as engine:
            works_and_ends(engine)
        assert len(lines_of_ours(engine)) == 1


def test_a_folder_that_can_not_be_made(tmp_path: Path) -> None:
    with Engine(EngineSpec(variables={"HICACHE_WITNESS_DIR": "/proc/nowhere/witness"}), tmp_path) as engine:
        works_and_ends(engine)
    assert len(lines_of_ours(engine)) == 1


def test_kills_of_both(tmp_path: Path) -> None:
    for turn in range(3):
        with Engine(EngineSpec(), tmp_path / str(turn)) as engine:
            for life in range(2):
                sidecar = RealSidecar(engine.rings, tmp_path / "sidecar.log", "--engine", engine.url)
                try:
                    check_verdicts(engine, sidecar, f"{turn} {life}")
                finally:
                    sidecar.kill()
            [path] = engine.rings.glob("*.ring")
            engine.kill()
            ring = read(path)
            assert (ring.torn, ring.dropped) == ([], 0)


def check_verdicts(engine: Engine, sidecar: RealSidecar, name: str) -> None:
    for _ in range(2):
        for index in range(6):
            answer = ask(engine, prompt(f"{name} {index}"))
            proof = sidecar.get(f"/proofs/{answer.request_id}?wait=20").raise_for_status().json()
            right = "corroborated" if answer.by_tier.get("host") else "no_read"
            assert proof["judgement"]["verdict"] == right, proof["judgement"]
