"""The engines of the GPU's benchmarks: what they are started with, and what is asked of them."""

from __future__ import annotations

import argparse
import os
import sys
from importlib.metadata import distributions
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).parents[2] / "benchmarks"))

import form
import on_gpu
from on_gpu import PLANS

GROUP = "sglang.srt.plugins"
REFUSED = 2  # argparse's


@pytest.fixture(autouse=True)
def release(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(on_gpu, "version", lambda _: "0.5.23")


def given(**others: object) -> argparse.Namespace:
    return argparse.Namespace(**{"seconds": 300, "history": None, "gpu": "H200", **others})


def scripts(name: str) -> list[str]:
    return [script for script, *_ in on_gpu.steps(name, PLANS[name], Path("/scratch"), given())]


@pytest.mark.parametrize("name", [name for name, plan in PLANS.items() if plan.tool])
def test_an_engine_finds_the_plugin_and_what_the_plan_adds(name: str, tmp_path: Path) -> None:
    plan = PLANS[name]
    variables = on_gpu.environment(plan, tmp_path, [])
    folders = variables["PYTHONPATH"].split(os.pathsep)
    points = {point.name for found in distributions(path=folders) for point in found.entry_points.select(group=GROUP)}
    assert "hicache_witness" in points
    assert ("seam_switch" in points) is (plan.tool == "seam_switch")
    assert any((Path(folder) / "hicache_tracing" / "plugin.py").exists() for folder in folders)
    assert variables["HICACHE_WITNESS"] == "1"
    assert variables["HICACHE_WITNESS_CONTENT"] == plan.content
    assert Path(variables[plan.tool.upper()]).is_dir()


def test_sglangs_own_tracing_is_measured_without_us(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HICACHE_WITNESS", "1")
    assert "HICACHE_WITNESS" not in on_gpu.environment(PLANS["tracing"], tmp_path, [])
    assert "--enable-trace" in on_gpu.arguments(PLANS["tracing"], tmp_path, "")


def test_more_arguments_come_last_and_win(tmp_path: Path) -> None:
    words = on_gpu.arguments(PLANS["recorder"], tmp_path, "--page-size 1 --attention-backend 'triton'")
    assert words[-4:] == ["--page-size", "1", "--attention-backend", "triton"]
    assert (tmp_path / "config.json").exists()


@pytest.mark.parametrize("name", PLANS)
def test_each_script_that_a_plan_names_is_there_and_takes_its_arguments(
    name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def no_bench(*_: object, **__: object) -> None:
        raise SystemExit(0)

    monkeypatch.setattr(form, "Bench", no_bench)
    for script, *words in on_gpu.steps(name, PLANS[name], Path("/scratch"), given(history=Path("history.jsonl"))):
        monkeypatch.setattr(sys, "argv", [script, *words])
        with pytest.raises(SystemExit) as ended:
            __import__(script.removesuffix(".py")).main()
        assert ended.value.code != REFUSED, capsys.readouterr().err


def test_only_the_recorder_has_an_aim_in_per_cent() -> None:
    aims = {name: "--aim" in on_gpu.steps(name, PLANS[name], Path("/scratch"), given())[0] for name in PLANS}
    assert [name for name, has in aims.items() if has] == ["recorder"]


def test_reads_are_loaded_before_they_are_told() -> None:
    assert scripts("reads") == ["engine_calls.py", "content_calls.py", "content_profile.py"]


def test_an_engine_that_does_not_start_is_said_with_the_end_of_its_log(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(sys, "argv", ["on_gpu.py", "--only", "recorder"])
    with pytest.raises(SystemExit, match=r"(?s)does not serve.*sglang"):
        on_gpu.main()
