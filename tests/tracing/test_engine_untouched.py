"""What the engine's ranks agree on, its objects and its users' prompts are none of ours."""

from __future__ import annotations

import os
import struct
import sys
from itertools import pairwise
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from hicache_tracing.identity import identity_of

from . import workload
from .engines import FAKES, Engine, importable, launch
from .engines import engine as running

AGREED_ON = {
    "check_hicache_events",
    "writing_check",
    "loading_check",
    "check_prefetch_progress",
    "can_terminate_prefetch",
    "_can_terminate_prefetch",
    "drain_storage_control_queues",
}
"""Functions of the trees in which all ranks take part: called once more or less on one of them, all stand still."""


class Watch:
    """The engine's own functions of these names, in the order in which they really ran."""

    def __init__(self, names: set[str]) -> None:
        self._names = names
        self.calls: list[str] = []

    def __enter__(self) -> list[str]:
        sys.setprofile(self._see)
        return self.calls

    def __exit__(self, *_: object) -> None:
        sys.setprofile(None)

    def _see(self, frame: Any, event: str, _argument: object) -> None:
        code = frame.f_code
        if event == "call" and code.co_name in self._names and code.co_filename.startswith(str(FAKES)):
            self.calls.append(code.co_name)


def objects(engine: Engine) -> dict[str, set[str]]:
    """Names of what each of the engine's objects holds."""
    controller = engine.tree.cache_controller
    held = {"scheduler": engine.scheduler, "tree": engine.tree, "controller": controller}
    held |= {"host pool": controller.mem_pool_host, "device pool": controller.mem_pool_device}
    held["request"] = engine.serve("looked at", list(range(50)))
    return {name: set(vars(one)) for name, one in held.items()}


def test_what_all_ranks_take_part_in_runs_as_often_and_in_the_same_order(release, tmp_path):
    with importable(release):
        engine = launch(release, None)
        with Watch(AGREED_ON) as alone:
            workload.run(engine)
    with running(release, tmp_path) as engine, Watch(AGREED_ON) as watched:
        workload.run(engine)
    assert set(alone) >= {"check_hicache_events", "writing_check", "loading_check", "check_prefetch_progress"}
    assert watched == alone


def test_nothing_is_left_on_its_objects(release, tmp_path):
    with importable(release):
        alone = objects(launch(release, None))
    with running(release, tmp_path) as engine:
        engine.serve("before", list(range(300)))
        assert objects(engine) == alone


def test_no_token_of_a_prompt_is_in_the_ring(release, tmp_path):
    prompt = [1_000_000_007 + 7919 * place for place in range(300)]
    with running(release, tmp_path) as engine:
        engine.serve("cold", prompt)
        engine.scheduler.evict(10**6)
        engine.serve("host hit", [*prompt, 2_000_000_011])
        ring = Path(engine.session.recorder.path).read_bytes()
    assert b"host hit" in ring
    for token, after in pairwise((*prompt, 2_000_000_011)):  # eight bytes each: a shorter one might be there by chance
        assert struct.pack("<q", token) not in ring
        assert struct.pack("<2i", token, after) not in ring
        assert str(token).encode() not in ring


def test_no_key_of_the_engine_is_in_the_ring(release, tmp_path):
    keys = {"api_key": "planted-api-key", "admin_api_key": "planted-admin-key", "hf_token": "planted-token"}
    with running(release, tmp_path, **keys) as engine:
        engine.serve("one", list(range(300)))
        ring = Path(engine.session.recorder.path).read_bytes()
    assert b"tiny-chat" in ring
    assert b"planted" not in ring


def test_it_starts_no_thread(release, tmp_path):
    before = set(os.listdir("/proc/self/task"))
    with running(release, tmp_path) as engine:
        workload.run(engine)
        assert set(os.listdir("/proc/self/task")) <= before


# -- ranks -----------------------------------------------------------------------------------------------------------
RANKS = {"tp_rank": 3, "pp_rank": 1, "dp_rank": 2, "attn_tp_rank": 1, "attn_cp_rank": 4}


def as_its_own_attributes(monkeypatch: pytest.MonkeyPatch) -> Any:
    return SimpleNamespace(**RANKS)


def in_ps(monkeypatch: pytest.MonkeyPatch) -> Any:
    return SimpleNamespace(ps=SimpleNamespace(**RANKS))


def of_the_process(monkeypatch: pytest.MonkeyPatch) -> Any:
    module = ModuleType("engine_of_ranks")
    module.get_parallel = lambda: SimpleNamespace(**RANKS)  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, module.__name__, module)
    return type("Scheduler", (), {"__module__": module.__name__})()


@pytest.mark.parametrize("told", [as_its_own_attributes, in_ps, of_the_process])
def test_the_header_tells_every_kind_of_rank_however_the_engine_does(monkeypatch, told):
    identity = identity_of(told(monkeypatch), SimpleNamespace(), None)
    assert {name: identity[name] for name in RANKS} == RANKS


def test_ranks_that_an_engine_does_not_tell_are_the_only_ones_and_those_of_attention_unknown():
    identity = identity_of(SimpleNamespace(), SimpleNamespace(), None)
    assert [identity[name] for name in RANKS] == [0, 0, 0, None, None]
