from __future__ import annotations

import msgspec
import pytest
from click.testing import CliRunner

from hicache_proof.lab.command import lab
from hicache_proof.lab.run import LabRun

from .fake_engine import FakeEngine, serving, sidecar_of

NOBODY = "http://127.0.0.1:9"


@pytest.fixture(autouse=True)
def no_long_looks(monkeypatch):
    """Nobody else uses an engine of these tests, unless one says so."""
    monkeypatch.setattr("hicache_proof.lab.preflight.QUIET_SECONDS", 0.0)


@pytest.fixture
def ask():
    """Runs ``hicache-witness lab`` against a fake engine, beside its sidecar unless told otherwise."""

    def run(engine, *arguments, sidecar=True, control=None):
        with serving(engine) as url, sidecar_of(engine) as sidecar_url, serving(control or FakeEngine()) as control_url:
            line = ["--engine", url, "--sidecar", sidecar_url if sidecar else NOBODY, *arguments]
            if control is not None:
                line += ["--control-engine", control_url]
            return CliRunner().invoke(lab, line, catch_exceptions=False)

    return run


@pytest.fixture
def run_of(ask):
    """The run itself, as --json prints it."""

    def run(engine, *arguments, **others) -> LabRun:
        result = ask(engine, "--json", *arguments, **others)
        assert result.exit_code in (0, 1), result.output
        return msgspec.json.decode(result.stdout, type=LabRun)

    return run
