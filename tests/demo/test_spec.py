"""A spec alone decides what the engine is told."""

from __future__ import annotations

from pathlib import Path

import pytest

from hicache_proof.demo.releases import NEWEST, RELEASES
from hicache_proof.demo.spec import SHIMS, EngineSpec, environment_variables, server_arguments


def arguments(spec: EngineSpec, version: str = NEWEST) -> dict[str, str | None]:
    """Option to value; None for a flag."""
    words = server_arguments(spec, RELEASES[version], Path("/model"), 30001)
    options: dict[str, str | None] = {}
    for word, following in zip(words, [*words[1:], "--"], strict=True):
        if word.startswith("--"):
            options[word] = None if following.startswith("--") else following
    return options


def variables(spec: EngineSpec, **inherited: str) -> dict[str, str]:
    return environment_variables(spec, inherited, (Path("/plugin"), Path("/engine")), Path("/rings"))


def test_serves_this_machine_alone() -> None:
    options = arguments(EngineSpec())
    assert (options["--host"], options["--port"], options["--device"]) == ("127.0.0.1", "30001", "cpu")


@pytest.mark.parametrize(
    ("spec", "told"),
    [
        (EngineSpec(), {"--hicache-write-policy": "write_through", "--page-size": "1", "--tp-size": "1"}),
        (EngineSpec(write_policy="write_back"), {"--hicache-write-policy": "write_back"}),
        (EngineSpec(page_size=16), {"--page-size": "16"}),
        (EngineSpec(tp_size=2), {"--tp-size": "2"}),
        (EngineSpec(max_total_tokens=4096), {"--max-total-tokens": "4096", "--context-length": "4096"}),
        (EngineSpec(storage=Path("/l3")), {"--hicache-storage-backend": "file"}),
    ],
    ids=str,
)
def test_what_is_wanted_is_said(spec: EngineSpec, told: dict[str, str]) -> None:
    assert arguments(spec).items() >= {"--enable-hierarchical-cache": None, **told}.items()


def test_without_hicache_nothing_of_it_is_said() -> None:
    assert not [option for option in arguments(EngineSpec(hicache=False)) if "hi" in option.removeprefix("--")[:2]]


def test_own_arguments_come_last_and_so_win() -> None:
    assert arguments(EngineSpec(arguments=("--page-size", "64")))["--page-size"] == "64"


@pytest.mark.parametrize(
    ("version", "flag"), [("0.5.12", "--disable-cuda-graph"), ("0.5.14", "--cuda-graph-backend-decode")]
)
def test_cuda_graphs_are_switched_off_as_the_release_knows_it(version: str, flag: str) -> None:
    assert flag in arguments(EngineSpec(), version)


def test_a_recording_engine_has_the_switch_and_the_folder() -> None:
    wanted = {"HICACHE_WITNESS": "1", "HICACHE_WITNESS_DIR": "/rings", "HICACHE_WITNESS_CONTENT": "sampled"}
    assert variables(EngineSpec(content="sampled")).items() >= wanted.items()


def test_an_engine_without_witness_has_no_variable_of_ours() -> None:
    given = variables(EngineSpec(witness=False), HICACHE_WITNESS="1", HICACHE_WITNESS_DIR="/elsewhere")
    assert not [name for name in given if name.startswith("HICACHE_")]


@pytest.mark.parametrize("name", ["SGLANG_PLUGINS", "PYTHONHOME", "PROMETHEUS_MULTIPROC_DIR", "OTEL_SDK_DISABLED"])
def test_what_would_change_the_engine_is_not_inherited(name: str) -> None:
    assert name not in variables(EngineSpec(), **{name: "x"})


def test_anything_else_is_inherited_and_own_variables_win() -> None:
    given = variables(EngineSpec(variables={"OMP_NUM_THREADS": "2"}), PATH="/bin", OMP_NUM_THREADS="8")
    assert (given["PATH"], given["OMP_NUM_THREADS"]) == ("/bin", "2")


def test_own_folders_come_before_the_plugin_and_the_engine() -> None:
    assert variables(EngineSpec(paths=(Path("/faults"),)))["PYTHONPATH"] == f"{SHIMS}:/faults:/plugin:/engine"


def test_each_rank_has_a_core_also_where_there_are_fewer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.sched_getaffinity", lambda _pid: {5, 3})
    assert variables(EngineSpec(tp_size=3))["SGLANG_CPU_OMP_THREADS_BIND"] == "3|5|3"
