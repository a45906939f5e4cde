"""The lab from outside: against an engine that behaves, and against one fault at a time."""

from __future__ import annotations

import msgspec
import pytest
from click.testing import CliRunner

from hicache_proof.lab.command import lab
from hicache_proof.lab.run import LabRun

from .fake_engine import FakeEngine, serving, sidecar_of


@pytest.fixture
def witness():
    """Runs ``hicache-witness lab`` against a fake engine, with its sidecar unless told otherwise."""

    def run(engine: FakeEngine, *arguments: str, sidecar: bool = True, control: FakeEngine | None = None):
        with serving(engine) as url, sidecar_of(engine) as sidecar_url, serving(control or engine) as control_url:
            line = ["--engine", url, "--sidecar", sidecar_url if sidecar else "http://127.0.0.1:9", *arguments]
            if control is not None:
                line += ["--control-engine", control_url]
            return CliRunner().invoke(lab, line)

    return run


def run_of(result) -> LabRun:
    return msgspec.json.decode(result.stdout, type=LabRun)


def test_a_read_from_l2_that_all_witnesses_saw_exits_0(witness):
    result = witness(FakeEngine(), "--json")
    run = run_of(result)
    assert result.exit_code == 0
    assert (run.outcome.verdict, run.outcome.content) == ("corroborated", "intact")
    assert [request.judgement.served_by for request in run.of("C")] == ["host"] * 3
    assert {request.judgement.served_by for request in run.of("B")} == {"device"}
    assert {request.judgement.verdict for series in "ABD" for request in run.of(series)} == {"no_read"}
