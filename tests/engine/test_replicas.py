"""The lab on an engine with two data-parallel replicas: it asks one of them, and proves a read of that one's L2."""

from __future__ import annotations

import msgspec
import pytest
from click.testing import CliRunner

from hicache_proof.demo.engine import Engine, EngineSpec
from hicache_proof.demo.sidecar import Sidecar
from hicache_proof.lab.command import lab
from hicache_proof.lab.run import LabRun

from .driver import ask, flush, prompt

pytestmark = [pytest.mark.engine, pytest.mark.timeout(300)]


@pytest.fixture(scope="module")
def run(engines, tmp_path_factory):
    """The engine and what the lab found on its second replica."""
    engine = engines(EngineSpec(dp_size=2))
    flush(engine)
    with Sidecar(engine.url, engine.rings, tmp_path_factory.mktemp("sidecar")) as sidecar:
        line = ["--engine", engine.url, "--sidecar", sidecar.url, "--dp-rank", "1", "--json", "--repetitions", "2"]
        result = CliRunner().invoke(lab, line)
    assert result.exit_code == 0, result.stderr
    return engine, msgspec.json.decode(result.stdout, type=LabRun)


def test_a_read_of_its_l2_is_corroborated_and_no_other_served_anything(run):
    _, found = run
    assert (found.outcome.verdict, found.outcome.content) == ("corroborated", "intact")
    assert {request.evidence.rank for request in found.requests} == {"dp1-tp0"}
    assert {request.reply.dp_rank for request in found.requests} == {1}
    (check,) = [check for check in found.checks if check.name == "replica"]
    assert check.says.endswith("it served 2 of 2 probes and no other did")


def test_the_plan_is_made_for_one_replica(run):
    engine, found = run
    assert found.before.device_capacity == engine.spec.max_total_tokens, "both together have twice as much"


def test_without_a_choice_the_engine_takes_them_in_turn(run):
    """So that the lab's requests stayed on one is its own doing."""
    engine: Engine = run[0]
    ask(engine, prompt("in turn"))
    assert ask(engine, prompt("in turn")).cached_tokens <= 1
