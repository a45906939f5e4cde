"""The doctor at a real SGLang: two of its ways not to use L2."""

from __future__ import annotations

import json
import random
from pathlib import Path

import httpx
import pytest
from click.testing import CliRunner

from hicache_proof.demo.engine import Engine
from hicache_proof.demo.spec import EngineSpec
from hicache_proof.doctor.command import doctor

pytestmark = pytest.mark.engine
NOBODY = "http://127.0.0.1:1"


def prompts(engine: Engine, count: int) -> None:
    """Different prompts, more of them than L1 holds."""
    rng = random.Random(1)
    for _ in range(count):
        body = {
            "input_ids": [rng.randrange(100, 300) for _ in range(300)],
            "sampling_params": {"max_new_tokens": 2, "ignore_eos": True, "temperature": 0},
        }
        httpx.post(engine.url + "/generate", json=body, timeout=60).raise_for_status()


@pytest.mark.parametrize(
    ("spec", "stage", "finding"),
    [
        (EngineSpec(hicache=False), "flags", "hicache-off"),
        (EngineSpec(write_policy="write_through_selective"), "backup", "policy-never-backed-up"),
    ],
    ids=["HiCache off", "a policy that backs up nothing that is used once"],
)
def test_the_first_broken_stage_is_named(spec: EngineSpec, stage: str, finding: str, tmp_path: Path) -> None:
    with Engine(spec, tmp_path) as engine:
        prompts(engine, 5)
        result = CliRunner().invoke(
            doctor, ["--engine", engine.url, "--ring-dir", str(engine.rings), "--sidecar", NOBODY, "--json"]
        )
    answered = json.loads(result.output)
    assert answered["diagnosis"]["first_broken"] == stage
    assert [found["id"] for found in answered["findings"] if found["severity"] == "error"] == [finding]
    assert result.exit_code == 2
